"""`python -m ntkmmd_jax` is `ntkmmd`."""

from ntkmmd_jax.cli import main

if __name__ == "__main__":
    main()
