"""All nodes of a machine against each other: census, sweeps, tournament."""
