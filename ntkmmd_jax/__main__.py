"""`python -m ntkmmd_jax` is `ntkmmd`."""

from ntkmmd_jax.cli.app import main

if __name__ == "__main__":
    main()
