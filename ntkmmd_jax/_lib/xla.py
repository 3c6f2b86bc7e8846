"""A compiler flag without which jaxlib 0.10.2 and 0.11.0 give wrong sums on CPU.

They hand matrix products that are followed by a sum to YNNPACK as one fused kernel, which is wrong
beyond some size (jax-ml/jax#39103): of 401 forms uᵀKu at n = 1,800, most were off, by up to 106 %.
`-reduce` keeps sums out of such kernels, at no cost in speed that we could measure. 0.10.1 is
sound; `tests/_lib/test_xla.py` tells of any later version that is not.

XLA reads its flags once, when JAX starts. If that was before the import of this package, every
program compiled from then on is given the flag by itself: ours, and those of the user, who may
have ours inside. A program that was compiled earlier knows nothing of this package.
"""

import functools
import os
from typing import Any

from jaxlib.version import __version__ as JAXLIB

_UNSOUND = ("0.10.2", "0.11.0")
_FLAG = "xla_cpu_experimental_ynn_fusion_type"
_WITHOUT_SUMS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"  # what `-reduce` leaves, in a program's words


def repair() -> None:
    """Set the flag, if this jaxlib needs it and nobody has; program by program if it is late."""
    flags = os.environ.get("XLA_FLAGS", "")
    if JAXLIB not in _UNSOUND or _FLAG in flags:
        return
    os.environ["XLA_FLAGS"] = f"{flags} --{_FLAG}=-reduce".strip()  # for this process or its own
    from jax._src import xla_bridge  # private, but these versions have it

    if xla_bridge.backends_are_initialized():
        _repair_programs()


def _repair_programs() -> None:
    """Have JAX compile every program for CPUs with the flag, unless the program says otherwise."""
    try:
        from jax._src import compiler

        plain = compiler.get_compile_options
    except (ImportError, AttributeError) as error:
        raise ImportError(
            f"jaxlib {JAXLIB} gets some sums wrong on CPU (jax-ml/jax#39103), and JAX was used "
            f"before ntkmmd_jax: import ntkmmd_jax first, or set XLA_FLAGS=--{_FLAG}=-reduce"
        ) from error

    @functools.wraps(plain)
    def with_flag(*args: Any, backend: Any, **options: Any) -> Any:
        if backend.platform == "cpu":
            given = options.get("env_options_overrides") or {}
            options["env_options_overrides"] = {_FLAG: _WITHOUT_SUMS, **given}
        return plain(*args, backend=backend, **options)

    compiler.get_compile_options = with_flag
