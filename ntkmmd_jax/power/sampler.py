"""The sampler of a sweep, `sampler(key, n_x, n_y, **point) -> (x, y)`, and what is asked of it.

It is traced once and run for every replica, so that it must be pure JAX and draw with its key. One
that draws otherwise (numpy's generators) would give every replica the same data, and every power
would be 0 or 1. Hence a few draws before a sweep: samples of the sizes asked for, of finite
numbers, that are not the same for every key.
"""

import functools
import hashlib
import inspect
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.points import as_samples
from ntkmmd_jax._lib.precision import jit, pinned

Sampler = Callable[..., tuple[jax.Array, jax.Array]]
Fixed = tuple[tuple[str, Any], ...]  # parameters that fix the program, by name
_DRAWS = 8
_partials = weakref.WeakValueDictionary()  # the first of equals, as long as its programs live


def one_of_equals(sampler: Sampler) -> Sampler:
    """Take the same object for every `partial` of a function with equal arguments.

    A program belongs to the object from which it was traced, and Python tells equal partials apart.
    Numbers are equal if they are so to the last bit and of one type: 1 may fix a shape where 1.0 is
    traced. Arrays are compared by what is in them. What cannot be hashed is equal to itself alone.
    """
    if type(sampler) is not functools.partial or vars(sampler):
        return sampler
    leaves, structure = jax.tree.flatten((sampler.args, sampler.keywords))
    try:
        same = (sampler.func, structure, tuple(map(_value, leaves)))
        if (first := _partials.get(same)) is not None:
            return first
    except TypeError:
        return sampler
    # Of numpy's arrays a copy, which nobody can write to after the program is traced.
    args, keywords = jax.tree.unflatten(structure, map(_copied, leaves))
    return _partials.setdefault(same, functools.partial(sampler.func, *args, **keywords))


def _value(leaf: Any) -> tuple:
    if isinstance(leaf, jax.Array | np.ndarray) and leaf.dtype != object:
        numbers = numbers_of(leaf)
        return (
            type(leaf),
            str(leaf.dtype),
            numbers.shape,
            hashlib.sha256(numbers.tobytes()).digest(),
        )
    return type(leaf), repr(leaf), leaf


def _copied(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def numbers_of(value: Any) -> np.ndarray:
    """An array, or the words of random keys, on the host."""
    is_key = jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(value) if is_key else value)


@jit(static_argnums=(0, 1, 2), inline=True)  # traced once, for all uses
def draw(
    sampler: Sampler,
    sizes: tuple[int, int],
    fixed: Fixed,
    key: jax.Array,
    traced: dict[str, Any],
) -> tuple[jax.Array, jax.Array]:
    """Draw x and y. The sizes are positional: a sampler may call them what it likes."""
    return sampler(key, *sizes, **traced, **dict(fixed))


def check_draws(
    key: jax.Array,
    sampler: Sampler,
    sizes: tuple[int, int],
    fixed: Fixed,
    traced: dict[str, float],
) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    """Draw a few times; return the shapes of x and y, or say what is wrong with them."""
    return _checked(jax.random.key_impl(key), sampler, sizes, fixed, tuple(traced.items()))


@functools.lru_cache(maxsize=4096)  # a repeated sweep pays once
def _checked(
    impl: Any,
    sampler: Sampler,
    sizes: tuple[int, int],
    fixed: Fixed,
    traced: tuple[tuple[str, float], ...],
) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    numbers = dict(traced)
    at = ", ".join(f"{name} = {value}" for name, value in (*traced, *fixed))
    at = f"at {at}" if at else "without parameters"
    keys = jax.random.split(jax.random.key(0, impl=impl), _DRAWS)
    try:
        inspect.signature(sampler).bind(keys[0], *sizes, **numbers, **dict(fixed))
    except TypeError as error:
        raise ValueError(
            f"the sampler is called as sampler(key, n_x, n_y, ...) {at}, but {error}: "
            "name its parameters in the grid, or give them defaults"
        ) from error
    sample = functools.partial(_samples, sampler, sizes, fixed)
    try:
        shapes = jax.eval_shape(pinned(sample), keys[0], numbers)  # one trace with `_look`
        found = jax.device_get(_look(keys, numbers, sampler=sampler, sizes=sizes, fixed=fixed))
    except (TypeError, IndexError, jax.errors.JaxRuntimeError) as error:  # no memory, above all
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"the sampler fails for {sizes} samples, {at}: {reason}") from error
    for name, finite, same, one_point in zip(("x", "y"), *found, strict=True):
        if not finite:
            raise ValueError(f"the sampler gives NaN or infinite values in {name}, {at}")
        if same and not one_point:  # the same point always is a law, if a dull one
            raise ValueError(
                f"the sampler gives the same {name} for every key, {at}: all replicas would see "
                "one data set. Draw with the key, by jax.random (numpy's generators run once, "
                "when the sampler is traced)"
            )
    return shapes


def _samples(
    sampler: Sampler,
    sizes: tuple[int, int],
    fixed: Fixed,
    key: jax.Array,
    traced: dict[str, Any],
) -> tuple[jax.Array, jax.Array]:
    """Draw x and y as a test would see them; refuse other shapes than were asked for."""
    try:
        drawn = draw(sampler, sizes, fixed, key, traced)
    except Exception as error:
        jax_says = isinstance(error, jax.errors.JAXTypeError | jax.errors.JAXIndexError)
        if not jax_says and "Tracer" not in str(error):
            raise
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            "the sampler cannot be traced: it must be pure JAX, with jax.numpy for numpy and "
            "jax.random for numpy's generators. The floats of the grid are traced like the key; "
            f"what fixes a shape must be a whole number. JAX says: {reason}"
        ) from error
    if not isinstance(drawn, tuple | list) or len(drawn) != 2:
        what = f"{len(drawn)} things" if isinstance(drawn, tuple | list) else "something else"
        raise ValueError(f"the sampler must return a pair (x, y); it returned {what}")
    try:
        x, y = as_samples(*drawn)
    except ValueError as error:
        raise ValueError(f"the sampler does not give two samples: {error}") from error
    if (len(x), len(y)) != sizes:
        raise ValueError(
            f"the sampler was asked for n_x = {sizes[0]} and n_y = {sizes[1]} samples, one a row; "
            f"it gave x of shape {x.shape} and y of shape {y.shape}"
        )
    return x, y


@jit(static_argnames=("sampler", "sizes", "fixed"))
def _look(
    keys: jax.Array,
    traced: dict[str, Any],
    *,
    sampler: Sampler,
    sizes: tuple[int, int],
    fixed: Fixed,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Of x and of y, over all draws: all finite, each like the one before, all of one point."""
    sample = functools.partial(_samples, sampler, sizes, fixed)

    def each(check: Callable, *samples: tuple) -> jax.Array:
        return jnp.stack([jnp.all(check(*of)) for of in zip(*samples, strict=True)])

    def look(before: tuple, key: jax.Array) -> tuple[tuple, tuple]:
        now = sample(key, traced)
        finite = each(jnp.isfinite, now)
        one_point = each(lambda z: z == z[:1], now)
        return now, (finite, each(jnp.equal, before, now), one_point)

    blank = jax.tree.map(
        lambda z: jnp.zeros(z.shape, z.dtype), jax.eval_shape(sample, keys[0], traced)
    )
    _, (finite, same, one_point) = jax.lax.scan(look, blank, keys)
    return finite.all(0), same[1:].all(0), one_point.all(0)
