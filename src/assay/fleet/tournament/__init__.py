"""All pairs of nodes measured against each other, and what that says of each of them."""
