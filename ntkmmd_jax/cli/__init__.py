"""The command line `ntkmmd`."""
