"""What tests share: the strict base classes, transports, stacks. Tests import from here."""
