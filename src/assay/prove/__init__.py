"""Evidence for a number: the launch, the data path, counters of links, the state of nodes."""
