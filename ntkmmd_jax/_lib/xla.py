"""A compiler flag without which jaxlib 0.10.2 and 0.11.0 give wrong sums on CPU.

They hand matrix products that are followed by a sum to YNNPACK as one fused kernel, which is wrong
beyond some size (jax-ml/jax#39103): of 401 forms uᵀKu at n = 1,800, most were off, by up to 106 %.
`-reduce` keeps sums out of such kernels, at no cost in speed that we could measure. 0.10.1 is
sound; `tests/_lib/test_xla.py` tells of any later version that is not.
"""

import os
import warnings

from jaxlib.version import __version__ as JAXLIB

_UNSOUND = ("0.10.2", "0.11.0")
_FLAG = "xla_cpu_experimental_ynn_fusion_type"


def repair() -> None:
    """Set the flag, if this jaxlib needs it and nobody has; warn if it comes too late."""
    flags = os.environ.get("XLA_FLAGS", "")
    if JAXLIB not in _UNSOUND or _FLAG in flags:
        return
    os.environ["XLA_FLAGS"] = f"{flags} --{_FLAG}=-reduce".strip()
    from jax._src import xla_bridge  # private, but these versions have it

    if xla_bridge.backends_are_initialized():
        warnings.warn(
            f"jaxlib {JAXLIB} gets some sums wrong on CPU (jax-ml/jax#39103), and JAX "
            "was used before ntkmmd_jax was imported, too late to set the flag that prevents it: "
            f"import ntkmmd_jax first, or set XLA_FLAGS=--{_FLAG}=-reduce",
            stacklevel=3,
        )
