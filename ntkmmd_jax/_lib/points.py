"""What may stand for a sample: anything array-like, read as points (n, ...) of the default float.

A sample is refused where a test could not see it for what it is: masked cells, columns of other
names, and values whose differences vanish when they are cast to float32.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ntkmmd_jax._lib.telling import warn

REFUSED_LOSS = 0.1  # of a feature's standard deviation, by the cast to float32
WARNED_LOSS = 0.001
_TILE = 2**17  # numbers that are looked at at once
_NOISE = 1e-14  # a float feature that varies by less, relative to its size, is a constant


def as_array(values: Any, name: str = "the sample") -> jax.Array | np.ndarray:
    """Real numbers of shape (n, ...), as they came: a JAX array, or one of numpy.

    Only shape, type and mask are looked at, so this works on traced arrays; `check_finite` looks at
    the numbers.
    """
    if not isinstance(values, jax.Array):
        _check_mask(values, name)
        try:
            values = np.asarray(values)
        except ValueError as error:
            raise ValueError(f"{name} is not a rectangular array: {error}") from error
        if values.dtype == object:
            values = _numbers(values, name)
    if not (jnp.issubdtype(values.dtype, jnp.floating) or values.dtype.kind in "biu"):
        raise ValueError(f"{name} must hold real numbers; got dtype {values.dtype}")
    if values.ndim == 0:
        raise ValueError(f"{name} must have one row per sample; got a single number")
    if math.prod(values.shape) == 0:
        raise ValueError(f"{name} is empty: shape {values.shape}")
    return values[:, None] if values.ndim == 1 else values


def as_points(values: Any, name: str = "the sample") -> jax.Array:
    """Turn anything array-like into points of shape (n, ...) in the default float type.

    A flat sequence is n samples of one feature.
    """
    values = as_array(values, name)
    check_cast([values], name)
    return cast(values)


def points_like(values: Any, features: tuple[int, ...]) -> jax.Array:
    """`as_points`, for a witness of points of the given shape; refuse any other."""
    points = cast(as_array(values, "the points"))  # each is scored by itself: no spread to lose
    if points.shape[1:] != features:
        raise ValueError(
            f"the witness takes points of shape (n, {', '.join(map(str, features))}); "
            f"got {points.shape}"
        )
    return points


def as_samples(x: Any, y: Any) -> tuple[jax.Array, jax.Array]:
    """Check two samples against each other: `as_points` of both, with the same features.

    Where both have named columns (data frames), those of y are put in the order of x's.
    """
    x, y = paired(x, y)
    return cast(x), cast(y)


def paired(x: Any, y: Any) -> tuple[jax.Array | np.ndarray, jax.Array | np.ndarray]:
    """The same of arrays as they are, wherever they are."""
    order = _column_order(x, y)
    x, y = as_array(x, "x"), as_array(y, "y")
    if x.shape[1:] != y.shape[1:]:
        raise ValueError(
            f"x and y have different features: samples of shape {x.shape[1:]} and {y.shape[1:]}"
        )
    for name, sample in (("x", x), ("y", y)):
        if len(sample) < 2:
            raise ValueError(f"{name} has {len(sample)} sample; a two-sample test needs at least 2")
    y = y if order is None else y[:, order]
    check_cast([x, y], "x and y")
    return x, y


def check_finite(points: ArrayLike, name: str) -> None:
    """Raise if any number is NaN or infinite in the working precision, and say where."""
    bad = ~np.isfinite(np.asarray(points))
    if bad.any():
        rows = np.unique(np.nonzero(bad)[0])
        raise ValueError(
            f"{name} has NaN or infinite values in {len(rows)} of {len(bad)} samples "
            f"(the first is sample {rows[0]}); drop or impute them first"
        )


def check_cast(samples: Sequence[jax.Array | np.ndarray], name: str) -> None:
    """Refuse samples whose differences the cast to the default float loses; warn of some loss.

    A feature loses std(cast(v) − v) / std(v), over the values v of all samples: values of the size
    of c have a rounding error of 3e-8 c, and if c is an offset, that is what remains of them.
    """
    dtype = np.dtype(jnp.result_type(float))
    arrays = [a for a in samples if isinstance(a, np.ndarray) and not np.can_cast(a.dtype, dtype)]
    if not arrays:
        return
    with np.errstate(all="ignore"):  # what is not finite is for `check_finite` to say
        loss = np.nan_to_num(_cast_loss(arrays, dtype), posinf=0.0)
    worst = np.unravel_index(np.argmax(loss), loss.shape)
    if loss[worst] <= WARNED_LOSS:
        return
    said = (
        f"{name}: feature {', '.join(map(str, worst))} loses "
        f"{100 * min(loss[worst], 1.0):.3g} % of its spread when cast to {dtype} (values such as "
        f"{arrays[0][(0, *worst)]!s}): subtract its mean and rescale it first, or enable "
        "64-bit numbers (JAX_ENABLE_X64=1)"
    )
    if loss[worst] > REFUSED_LOSS:
        raise ValueError(said)
    warn(said)


def _cast_loss(arrays: list[np.ndarray], dtype: np.dtype) -> np.ndarray:
    """std(cast(v) − v) / std(v) of every feature, in one pass and in blocks."""
    whole = all(array.dtype.kind in "iu" for array in arrays)  # differences may need all 64 bits
    first = arrays[0][0].astype(np.int64 if whole else np.float64)
    rows = max(1, _TILE // max(first.size, 1))
    sums, n = np.zeros((4, *first.shape)), 0
    for array in arrays:
        for start in range(0, len(array), rows):
            block = array[start : start + rows]
            # From the first point: of values far from 0 the squares would cancel.
            exact = (block.astype(first.dtype) - first).astype(np.float64)
            error = (block.astype(dtype) - first.astype(dtype).astype(np.float64)) - exact
            sums += [exact.sum(0), (exact**2).sum(0), error.sum(0), (error**2).sum(0)]
            n += len(block)
    means = sums / n
    spread, lost = np.sqrt(np.maximum(means[1::2] - means[::2] ** 2, 0))
    floor = 0.0 if whole else _NOISE * np.abs(first)
    return np.where(spread > floor, lost / spread, 0.0)


def cast(values: jax.Array | np.ndarray) -> jax.Array:
    """The same values in the default float type."""
    dtype = jnp.result_type(float)
    if isinstance(values, jax.Array) and values.dtype == dtype and not values.weak_type:
        return values
    if isinstance(values, jax.Array):
        return values.astype(dtype)
    with np.errstate(over="ignore"):  # what overflows becomes inf, and is reported as such
        return jnp.asarray(values.astype(dtype, copy=False), dtype)  # cast without a program


def _check_mask(values: Any, name: str) -> None:
    """Refuse masked cells: numpy would go on with whatever lies under the mask."""
    if isinstance(values, np.ma.MaskedArray):
        mask = np.atleast_1d(np.ma.getmaskarray(values))
        masked = mask.reshape(len(mask), -1).any(axis=1) if mask.size else mask
    elif isinstance(values, list | tuple):
        rows = ((isinstance(v, np.ma.MaskedArray) and np.ma.is_masked(v)) for v in values)
        masked = np.fromiter(rows, bool)
    else:
        return
    if masked.any():
        raise ValueError(
            f"{name} has masked values in {masked.sum()} of {masked.size} samples (the first is "
            f"sample {masked.argmax()}); drop or fill them first"
        )


def _column_order(x: Any, y: Any) -> list[int] | None:
    """Where in y the columns of x are, if both have names; None to match them by position."""
    of_x, of_y = _columns(x), _columns(y)
    if of_x is None or of_y is None or of_x == of_y:
        return None
    if len(set(of_x)) == len(of_x) and set(of_x) == set(of_y) and len(of_x) == len(of_y):
        return [of_y.index(column) for column in of_x]
    if list(range(len(of_x))) in (of_x, of_y) and len(of_x) == len(of_y):
        return None  # a frame made of a plain array: numbers, no names
    only_x = [column for column in of_x if column not in of_y]
    only_y = [column for column in of_y if column not in of_x]
    found = f"only x has {only_x}, only y has {only_y}" if only_x or only_y else "names repeat"
    raise ValueError(f"x and y have different columns: {found}; rename or select them first")


def column_names(*frames: Any) -> tuple[str, ...] | None:
    """Names of the columns, of the first data frame that has any; one of a plain array has none."""
    for frame in frames:
        columns = _columns(frame)
        if columns is not None and columns != list(range(len(columns))):
            return tuple(map(str, columns))
    return None


def _columns(frame: Any) -> list[Any] | None:
    """The column names of a data frame of any make; None for what has none."""
    columns = getattr(frame, "columns", None)
    if (
        columns is None
        or isinstance(frame, jax.Array | np.ndarray)
        or getattr(frame, "ndim", 2) != 2
    ):
        return None
    names = list(columns)
    return names if all(getattr(type(name), "__hash__", None) for name in names) else None


def _numbers(values: np.ndarray, name: str) -> np.ndarray:
    """Numbers held as objects (a mixed data frame, None or NA for missing) as floats."""
    missing = [type(value).__name__ == "NAType" for value in values.ravel()]
    values = np.where(np.reshape(missing, values.shape), np.nan, values)
    try:
        return values.astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers; got dtype object ({error})") from error
