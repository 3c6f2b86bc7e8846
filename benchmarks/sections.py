"""A benchmark in sections, some of which may be chosen: `python NAME.py [runs] [--only NAME …]`."""

import argparse
import time
from collections.abc import Callable, Mapping


def run(sections: Mapping[str, Callable[[int], None]], about: str) -> None:
    """Read the command line and run what it names, each with its seconds."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("runs", nargs="?", type=int, default=2000)
    parser.add_argument("--only", nargs="+", choices=sections, default=list(sections))
    given = parser.parse_args()
    for name in given.only:
        start = time.perf_counter()
        print(f"\n{name}, {given.runs} replicas\n")
        sections[name](given.runs)
        print(f"\n{name}: {time.perf_counter() - start:.0f} s", flush=True)
