"""What a run came to, for readers: its page, its figures, and a verdict for each node."""
