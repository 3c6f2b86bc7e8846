"""`ntkmmd cache`: where compiled programs are kept, how many, and how to be rid of them."""

from typing import Annotated

import typer


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Delete them")] = False,
) -> None:
    """Show or clear the programs that commands have compiled and kept for the next."""
    from ntkmmd_jax._lib.cache import forget, kept, programs_folder

    programs = kept()
    size = sum(entry.stat().st_size for entry in programs) / 1e6
    if clear:
        forget()
    deleted = "deleted: " if clear else ""
    print(f"{deleted}{len(programs)} programs, {size:.1f} MB, in {programs_folder()}")
