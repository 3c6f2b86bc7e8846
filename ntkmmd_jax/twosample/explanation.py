"""Why a test found what it found: coordinates, samples, and a map of the witness.

*Coordinates*: which of them differ between the samples, with p-values adjusted for looking at all
(`driving`). This is evidence by itself, whatever the test: under H0 any is named with probability
at most the level. Beside it, what each does in this test's own witness g: along the straight line
from y to x, g changes by what its coordinates add up to (Sundararajan, Taly & Yan 2017),

    g(x) − g(y) = Σ_i (x_i − y_i) ∫_0^1 ∂_i g(y + t (x − y)) dt,

and the mean over pairs of points of x and y parts mean_x g − mean_y g among the coordinates.

*Samples*: the points of x where g is highest, and of y where it is lowest. *Map*: points in a
plane, with the witness as their colour. Shares, samples and map describe the witness and have no
null of their own: of a test that does not reject, they describe noise.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.keys import as_key, host_random
from ntkmmd_jax._lib.points import as_samples, check_finite, column_names
from ntkmmd_jax.twosample.driving import Driving, driving
from ntkmmd_jax.twosample.explained import Explanation, Extremes, WitnessMap

_PAIRS = 256  # of points, between which the witness is followed
_NODES, _WEIGHTS = (np.asarray(of) for of in np.polynomial.legendre.leggauss(5))
_DRAWN = 1000  # points of each sample on a map
_COMPONENTS = 512  # points whose principal components are taken
_GRID = 64  # cells of a plane, each way


def explain_witness(
    key: Any,
    witness: Any,
    x: Any,
    y: Any,
    *,
    method: str,
    level: float,
    n_permutations: int,
    names: tuple[str, ...] | None = None,
    strata: tuple[Any, Any] | None = None,
    image: tuple[int, ...] | None = None,
    rows: int = 5,
) -> Explanation:
    """Explain a witness by the samples that it is of: see `TwoSampleResult.explain`."""
    if witness is None:
        raise ValueError(
            f"{method} has no witness, which would say where x and y differ: use another method, "
            "as ntk-fuse (of the known ones all but gmmd-lin have a witness)"
        )
    whole("rows", rows)
    x, y, names = _named(x, y, names)
    check_finite(x, "x")
    check_finite(y, "y")
    shape = _shape(x.shape[1:], image)
    k_driving, k_shares, k_map = jax.random.split(as_key(key), 3)
    of_x, of_y = _values(witness, x, y)
    flat_x, flat_y = (np.asarray(sample).reshape(len(sample), -1) for sample in (x, y))
    found = driving(
        k_driving, flat_x, flat_y, level=level, n_permutations=n_permutations, strata=strata
    )
    if names is None:
        # Of an image, the name of a coordinate is (row, column).
        names = tuple(map(str, np.ndindex(shape) if len(shape) > 1 else range(flat_x.shape[1])))
    shares = witness_shares(k_shares, witness, x, y)
    drawn = _map(k_map, witness, (flat_x, flat_y), (of_x, of_y), x.shape[1:], found, names, shape)
    return Explanation(
        method,
        level,
        n_permutations,
        (len(x), len(y)),
        names,
        shape,
        found.statistic,
        found.pvalue,
        found.scores,
        found.partner,
        shares,
        Extremes.of(flat_x, of_x, rows),
        Extremes.of(flat_y, -of_y, rows).turned,
        drawn,
    )


def _named(
    x: Any, y: Any, names: tuple[str, ...] | None
) -> tuple[jax.Array, jax.Array, tuple[str, ...] | None]:
    """The samples, their columns in the order that the test saw, and the names of these."""
    own = column_names(x, y)
    x, y = as_samples(x, y)
    if own is None or names is None or own == names:
        return x, y, own or names
    if sorted(own) != sorted(names):
        raise ValueError(
            f"the test saw the columns {list(names)}, and these samples have {list(own)}: explain "
            "a result by the samples that it is of"
        )
    order = np.array([own.index(name) for name in names])
    return x[:, order], y[:, order], names


def _values(witness: Any, x: jax.Array, y: jax.Array) -> list[np.ndarray]:
    """The witness at all points of x and of y, by one program for many sizes."""
    n = len(x) + len(y)
    filled = np.concatenate([x, y, np.repeat(x[:1], padding.bucket(n) - n, axis=0)])
    return np.split(np.asarray(witness(filled))[:n], [len(x)])


def _shape(features: tuple[int, ...], image: tuple[int, ...] | None) -> tuple[int, ...]:
    """The shape of a sample as it is drawn: that of an image (h, w) or (h, w, c), or (d,)."""
    d = int(np.prod(features))
    if image is not None:
        if len(image) not in (2, 3) or int(np.prod(image)) != d:
            raise ValueError(f"image is (h, w) or (h, w, c) of {d} numbers in all; got {image}")
        return tuple(image)
    return features if len(features) in (2, 3) else (d,)


def witness_shares(key: jax.Array, witness: Any, x: jax.Array, y: jax.Array) -> np.ndarray:
    """How much of mean g over x − mean g over y every coordinate brings, shape (d,).

    Over pairs drawn at random; over all pairs the shares add up to the gap itself.
    """
    rng = host_random(key)
    of_x, of_y = (np.asarray(of)[rng.integers(len(of), size=_PAIRS)] for of in (x, y))
    step = of_x - of_y
    times = ((1 + _NODES) / 2).astype(step.dtype).reshape(-1, *[1] * x.ndim)
    on_the_way = jnp.asarray((of_y + times * step).reshape(-1, *x.shape[1:]))
    slopes = jax.grad(lambda points: jnp.sum(witness(points)))(on_the_way)
    slopes = np.asarray(slopes).reshape(len(_NODES), _PAIRS, -1)
    mean_slope = np.tensordot(_WEIGHTS / 2, slopes, axes=1)
    return np.mean(step.reshape(_PAIRS, -1) * mean_slope, axis=0)


def _map(
    key: jax.Array,
    witness: Any,
    samples: Sequence[np.ndarray],
    values: Sequence[np.ndarray],
    features: tuple[int, ...],
    found: Driving,
    names: tuple[str, ...],
    shape: tuple[int, ...],
) -> WitnessMap:
    """The plane itself, the two coordinates that differ most, or two principal components."""
    rng, d, grid = host_random(key), samples[0].shape[1], None
    some = [rng.permutation(len(sample))[:_DRAWN] for sample in samples]
    drawn = [sample[rows] for sample, rows in zip(samples, some, strict=True)]
    scores = [value[rows] for value, rows in zip(values, some, strict=True)]
    if d == 1:
        labels = (names[0], "witness")
        drawn = [np.column_stack(both) for both in zip(drawn, scores, strict=True)]
    elif d == 2:
        labels = (names[0], names[1])
        grid = _grid(witness, np.concatenate(drawn), features)
    elif len(shape) == 1:
        i, j = np.argsort(-found.statistic, kind="stable")[:2]
        labels = (names[i], names[j])
        drawn = [points[:, [i, j]] for points in drawn]
    else:
        labels = ("first principal component", "second principal component")
        drawn = _components(rng, drawn)
    return WitnessMap(labels, drawn[0], drawn[1], scores[0], scores[1], grid)


def _grid(
    witness: Any, points: np.ndarray, features: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The witness on a grid over points in the plane: columns, rows, and values."""
    columns, rows = (np.linspace(side.min(), side.max(), _GRID) for side in points.T)
    cells = np.stack(np.meshgrid(columns, rows), axis=-1)
    return columns, rows, np.asarray(witness(cells.reshape(-1, *features))).reshape(_GRID, _GRID)


def _components(rng: np.random.Generator, drawn: list[np.ndarray]) -> list[np.ndarray]:
    """The two leading principal components of images."""
    both = np.concatenate(drawn).astype(float)
    both -= both.mean(0)
    some = rng.permutation(len(both))[:_COMPONENTS]
    axes = np.linalg.svd(both[some], full_matrices=False)[2][:2]
    return np.split(both @ axes.T, [len(drawn[0])])
