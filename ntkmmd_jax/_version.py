"""The version, said here only: the build, `ntkmmd --version` and `__version__` read it."""

__version__ = "0.1.0"
