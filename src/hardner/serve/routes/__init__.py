"""The HTTP interface, a file for each kind of thing."""
