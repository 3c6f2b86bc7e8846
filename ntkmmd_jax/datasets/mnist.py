"""MNIST (LeCun et al. 1998): p is all 70,000 images, q has more of some ones, or lacks a digit.

    q = (1 − share) p + share p_cohort,

p_cohort uniform over about 1,900 of the 7,877 images of the digit 1. The paper does not say which:
here they are the 1,900 that lean furthest to the right, by the slant −μ_rc / μ_rr of an image's
second moments (columns to the right per row upwards). Nothing else was looked at to choose them.
"""

import functools
import gzip
import hashlib
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.datasets.folder import find
from ntkmmd_jax.datasets.gaussian import Sample

COHORT = 1900 / 7877  # of the images of the digit 1
FILES = {  # name: shape, and sha256 of the decompressed bytes
    "train-images-idx3-ubyte": (
        (60000, 28, 28),
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    "train-labels-idx1-ubyte": (
        (60000,),
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    "t10k-images-idx3-ubyte": (
        (10000, 28, 28),
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    "t10k-labels-idx1-ubyte": (
        (10000,),
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
}


def mnist_abundance(
    key: jax.Array,
    n_x: int = 3000,
    n_y: int = 2981,
    *,
    share: float | jax.Array = 0.15,
    data: str = "mnist",
) -> Sample:
    """p uniform over the images, q = (1 − share) p + share p_cohort; float32 in [0, 1].

    Images are drawn with replacement, so that samples are independent draws of p and of q; one
    image may come twice, and may be in both samples.

    Args:
        key: A JAX key.
        n_x: Samples of p, of shape (n_x, 28, 28, 1).
        n_y: Samples of q.
        share: The cohort's share of q beyond its share of p; 0 is H0.
        data: "mnist", from files (see `folder`), or "digits", a stand-in that needs none: the
            1,797 images of 8 × 8 pixels in scikit-learn, where q has more of 44 of the 182 ones.
    """
    if isinstance(share, int | float) and not 0 <= share <= 1:
        raise ValueError(f"share must lie in [0, 1]; got {share}")
    source = images(data)
    of_x, of_y = draw(key, n_x, n_y, share, source)
    return source.pixels(of_x), source.pixels(of_y)


def mnist_missing(
    key: jax.Array,
    n_x: int,
    n_y: int,
    *,
    digit: int | jax.Array,
    share: float | jax.Array = 1.0,
    data: str = "mnist",
) -> Sample:
    """p = ⅒ Σ_c p_c over the ten digits, q = (1 − share) p + share ⅑ Σ_{c ≠ digit} p_c.

    p_c is uniform over the images of digit c. In the manner of the missing digits of Schrab et al.
    (2023), whose p is that of the files, in which digits are not quite as frequent as each other.

    Args:
        key: A JAX key.
        n_x: Samples of p, of shape (n_x, 28, 28, 1).
        n_y: Samples of q.
        digit: Which one q lacks, 0 to 9.
        share: How much of it is missing, 1 for all; 0 is H0.
        data: "mnist", or "digits", as for `mnist_abundance`.
    """
    if isinstance(digit, int) and not 0 <= digit <= 9:
        raise ValueError(f"digit must be 0 to 9; got {digit}")
    if isinstance(share, int | float) and not 0 <= share <= 1:
        raise ValueError(f"share must lie in [0, 1]; got {share}")
    source = images(data)
    of_x, of_y = draw_missing(key, n_x, n_y, digit, share, source)
    return source.pixels(of_x), source.pixels(of_y)


@record
class Images:
    """Images of digits, packed: 55 MB as a constant of a program compile fastest in few words."""

    words: jax.Array  # (n, h·w/4) uint32, four pixels each
    cohort: jax.Array  # (m,) int32, which images are the cohort's
    by_digit: jax.Array  # (n,) int32, all images, those of the digit 0 first
    counts: jax.Array  # (10,) uint32, images of each digit
    shape: tuple[int, int] = static()
    white: int = static()  # the largest value of a pixel

    def pixels(self, which: jax.Array) -> jax.Array:
        """The images of these indices (k,) as float32 in [0, 1], shape (k, h, w, 1)."""
        pixels = jax.lax.bitcast_convert_type(self.words[which], jnp.uint8)
        return pixels.reshape(len(which), *self.shape, 1).astype(jnp.float32) / self.white


def draw(key: jax.Array, n_x: int, n_y: int, share: float | jax.Array, source: Images) -> Sample:
    """Indices of the images in a sample of p and in one of q."""
    n, m = len(source.words), len(source.cohort)
    # One draw of bits for all. The remainder is uniform to 1 in 2^32 / n.
    bits = jax.random.bits(key, (n_x + 2 * n_y,))
    of_x, of_y, coin = jnp.split(bits, [n_x, n_x + n_y])
    changed = _heads(coin, share)
    return _below(of_x, n), jnp.where(changed, source.cohort[_below(of_y, m)], _below(of_y, n))


def draw_missing(
    key: jax.Array,
    n_x: int,
    n_y: int,
    digit: int | jax.Array,
    share: float | jax.Array,
    source: Images,
) -> Sample:
    """Indices of the images in a sample of all digits, and in one without a digit."""
    bits = jax.random.bits(key, (2, n_x + n_y))
    coin = jax.random.bits(jax.random.fold_in(key, 1), (n_y,))
    other = _below(bits[0, n_x:], 9)
    other = other + (other >= jnp.asarray(digit).astype(jnp.int32)).astype(jnp.int32)
    of_y = jnp.where(_heads(coin, share), other, _below(bits[0, n_x:], 10))
    digits = jnp.concatenate([_below(bits[0, :n_x], 10), of_y])
    first = jnp.cumsum(source.counts) - source.counts
    which = source.by_digit[first[digits] + bits[1] % source.counts[digits]]
    return which[:n_x], which[n_x:]


def _below(bits: jax.Array, most: int) -> jax.Array:
    return (bits % most).astype(jnp.int32)


def _heads(bits: jax.Array, share: float | jax.Array) -> jax.Array:
    """True with probability `share`."""
    coin = (bits >> 8).astype(jnp.float32)  # 24 bits are exact
    return coin < jnp.asarray(share, jnp.float32) * 2**24


@functools.cache
def images(data: str = "mnist") -> Images:
    """All images of "mnist", training and test together, or of "digits"; read once."""
    if data not in ("mnist", "digits"):
        raise ValueError(f"data must be 'mnist' or 'digits'; got {data!r}")
    pixels, labels = _mnist() if data == "mnist" else _digits()
    with jax.ensure_compile_time_eval():  # arrays, also when a program is being traced
        return Images(
            jnp.asarray(pixels.reshape(len(pixels), -1).view("<u4")),
            jnp.asarray(_leaning(pixels, labels), jnp.int32),
            jnp.asarray(np.argsort(labels, kind="stable"), jnp.int32),
            jnp.asarray(np.bincount(labels, minlength=10), jnp.uint32),
            shape=pixels.shape[1:],
            white=int(pixels.max()),
        )


def _leaning(pixels: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Which images are the cohort: the ones that lean furthest to the right."""
    ones = np.flatnonzero(labels == 1)
    furthest_first = np.argsort(-slant(pixels[ones]), kind="stable")
    return np.sort(ones[furthest_first[: round(COHORT * len(ones))]])


def slant(pixels: np.ndarray) -> np.ndarray:
    """−μ_rc / μ_rr of images (n, h, w): by how many columns they lean to the right per row."""
    mass = pixels / pixels.sum((1, 2), keepdims=True, dtype=float)
    rows, columns = np.arange(pixels.shape[1]), np.arange(pixels.shape[2])
    of_row, of_column = mass.sum(2), mass.sum(1)
    mean_row, mean_column = of_row @ rows, of_column @ columns
    mixed = np.einsum("nrc,r,c->n", mass, rows, columns, optimize=True) - mean_row * mean_column
    return -mixed / (of_row @ rows**2 - mean_row**2)


def _mnist() -> tuple[np.ndarray, np.ndarray]:
    train_images, train_labels, test_images, test_labels = map(read_idx, FILES)
    return np.concatenate([train_images, test_images]), np.concatenate([train_labels, test_labels])


def _digits() -> tuple[np.ndarray, np.ndarray]:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(
            "the digits are in scikit-learn, which is not there: pip install 'ntkmmd-jax[images]'"
        ) from error
    found: Any = load_digits()
    return found.images.astype(np.uint8), found.target


def read_idx(name: str) -> np.ndarray:
    """The array of uint8 in an idx file of MNIST, raw or .gz; refuse any other file."""
    path = find([f"{name}.gz", name], "mnist")
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is no whole gzip file: {error}") from error
    shape, wanted = FILES[name]
    # Two zeros, 8 for unsigned bytes, the number of axes, their lengths in big-endian order.
    header = bytes([0, 0, 8, len(shape)]) + np.asarray(shape, ">u4").tobytes()
    if not content.startswith(header):
        raise ValueError(
            f"{path} is no idx file of {' x '.join(map(str, shape))} bytes: it begins with "
            f"{content[: len(header)].hex() or 'nothing'}, not {header.hex()}"
        )
    if (found := hashlib.sha256(content).hexdigest()) != wanted:
        raise ValueError(f"{path} is not MNIST's: its sha256 is {found}, not {wanted}")
    return np.frombuffer(content, np.uint8, offset=len(header)).reshape(shape)
