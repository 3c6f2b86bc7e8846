"""MNIST with a change of abundance: the shares, the cohort, the files; the digits stand in."""

import gzip
import hashlib
import sys

import jax
import numpy as np
import pytest
import scipy.stats

import ntkmmd_jax as ntk
from ntkmmd_jax.datasets import mnist
from ntkmmd_jax.datasets.mnist import mnist_abundance, mnist_missing

KEY = jax.random.key(3)
N = 40_000
NAME = "t10k-labels-idx1-ubyte"


def header(*shape):
    return bytes([0, 0, 8, len(shape)]) + np.asarray(shape, ">u4").tobytes()


@pytest.mark.parametrize("share", [0.0, 0.15, 1.0])
def test_the_shares_of_the_cohort(share):
    """Binomial counts: within 4.5 standard errors but for 1 in 100,000 runs, and exact at 1."""
    source = mnist.images("digits")
    part = len(source.cohort) / len(source.words)
    drawn = mnist.draw(KEY, N, N - 1, share, source)
    assert [len(which) for which in drawn] == [N, N - 1]
    for which, rate in zip(drawn, (part, share + (1 - share) * part), strict=True):
        found = np.isin(which, source.cohort).mean()
        assert abs(found - rate) <= 4.5 * np.sqrt(rate * (1 - rate) / N)


def test_draws_are_uniform_and_independent():
    """χ² of the counts of all images, and of the cohort's; none is in x because it is in y."""
    source = mnist.images("digits")
    n = len(source.words)
    x, y = map(np.asarray, mnist.draw(KEY, N, N, 0.0, source))
    _, changed = mnist.draw(KEY, 1, N, 1.0, source)
    of_cohort = np.bincount(changed, minlength=n)[np.asarray(source.cohort)]
    for counts in (np.bincount(x, minlength=n), np.bincount(y, minlength=n), of_cohort):
        assert counts.sum() == N
        assert 1e-5 < scipy.stats.chisquare(counts).pvalue < 1 - 1e-5
    assert np.sum(x == y) <= scipy.stats.poisson.ppf(1 - 1e-5, N / n)


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_a_missing_digit(share):
    """χ² of the counts of images: every digit alike, every image of a digit alike."""
    from sklearn.datasets import load_digits

    labels = load_digits().target
    drawn = mnist.draw_missing(KEY, N, N, 3, share, mnist.images("digits"))
    of_p = np.full(10, 0.1)
    without = np.where(np.arange(10) == 3, 0, 1 / 9)
    for which, rates in zip(drawn, (of_p, (1 - share) * of_p + share * without), strict=True):
        expected = N * (rates / np.bincount(labels))[labels]
        counts = np.bincount(which, minlength=len(labels))
        assert counts[expected == 0].sum() == 0
        found = scipy.stats.chisquare(counts[expected > 0], expected[expected > 0])
        assert 1e-5 < found.pvalue < 1 - 1e-5


def test_samples_with_a_missing_digit():
    x, y = mnist_missing(KEY, 30, 20, digit=7, data="digits")
    assert (x.shape, y.shape, x.dtype) == ((30, 8, 8, 1), (20, 8, 8, 1), np.float32)
    traced = jax.jit(lambda digit: mnist_missing(KEY, 30, 20, digit=digit, data="digits"))(7)
    np.testing.assert_array_equal(traced[1], y)
    for options, message in (({"digit": 10}, "digit must be"), ({"digit": 1, "share": 2}, "share")):
        with pytest.raises(ValueError, match=message):
            mnist_missing(KEY, 5, 5, data="digits", **options)


def test_images_are_those_of_the_digits():
    from sklearn.datasets import load_digits

    x, y = mnist_abundance(KEY, 30, 20, data="digits")
    assert (x.shape, y.shape, x.dtype) == ((30, 8, 8, 1), (20, 8, 8, 1), np.float32)
    which, _ = mnist.draw(KEY, 30, 20, 0.15, mnist.images("digits"))
    np.testing.assert_array_equal(x[..., 0], load_digits().images[which] / 16)
    labels = load_digits().target
    cohort = np.asarray(mnist.images("digits").cohort)
    assert len(cohort) == 44 and set(labels[cohort]) == {1}


def test_traced_share_and_vmap_give_the_same_numbers():
    keys = jax.random.split(KEY, 3)

    @jax.jit
    def many(keys, share):
        return jax.vmap(lambda k: mnist_abundance(k, 7, 5, share=share, data="digits"))(keys)

    many = many(keys, 0.4)
    for i, key in enumerate(keys):
        for one, all_ in zip(mnist_abundance(key, 7, 5, share=0.4, data="digits"), many,
                             strict=True):  # fmt: skip
            np.testing.assert_array_equal(one, all_[i])


def test_a_sweep_over_the_share():
    grid = {"share": [0.0, 1.0], "data": "digits"}
    table = ntk.power_sweep(0, ["gmmd"], mnist_abundance, grid, n=20, n_runs=60, progress=False)
    null, cohort = (row.rejections for row in table.rows)
    assert cohort == 60  # only leaning ones against all digits
    assert null <= scipy.stats.binom.ppf(1 - 1e-5, 60, 0.05)


def test_slant_of_lines():
    lines = np.zeros((3, 9, 20))
    rows = np.arange(9)
    for line, lean in zip(lines, (0, 1, -2), strict=True):
        line[rows, 9 - lean * (rows - 4)] = 5  # rows count downwards
    np.testing.assert_allclose(mnist.slant(lines), [0, 1, -2], atol=1e-12)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_files_raw_and_compressed(folder, monkeypatch, suffix):
    """Four small files in place of MNIST's, with their own sums."""
    rng = np.random.default_rng(0)
    wanted, files = {}, {}
    for name, shape in zip(mnist.FILES, [(6, 4, 4), (6,), (3, 4, 4), (3,)], strict=True):
        wanted[name] = rng.integers(0, 255, shape).astype(np.uint8)
        content = header(*shape) + wanted[name].tobytes()
        files[name] = (shape, hashlib.sha256(content).hexdigest())
        (folder / "mnist").mkdir(exist_ok=True)
        path = folder / "mnist" / f"{name}{suffix}"
        path.write_bytes(gzip.compress(content) if suffix else content)
    monkeypatch.setattr(mnist, "FILES", files)
    pixels, labels = mnist._mnist()
    train_images, train_labels, test_images, test_labels = wanted.values()
    np.testing.assert_array_equal(pixels, np.concatenate([train_images, test_images]))
    np.testing.assert_array_equal(labels, np.concatenate([train_labels, test_labels]))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (NAME, header(10000) + bytes(10000), "its sha256 is [0-9a-f]{64}, not ff7bcfd4"),
        (NAME, header(60000) + bytes(60000), "no idx file of 10000 bytes: it begins with 00000801"),
        (NAME, b"", "no idx file of 10000 bytes: it begins with nothing"),
        (f"{NAME}.gz", gzip.compress(header(10000), mtime=0)[:-9], "no whole gzip file"),
        (f"{NAME}.gz", b"<html>", "no whole gzip file"),
    ],
)
def test_other_files_are_refused(folder, name, content, message):
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        mnist.read_idx(NAME)
    assert str(folder / name) in str(caught.value)


def test_absent_files_and_absent_scikit_learn(folder, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"train-images-idx3-ubyte.gz is in none of"):
        mnist.images.__wrapped__("mnist")
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'ntkmmd-jax\[images\]'"):
        mnist.images.__wrapped__("digits")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"data": "cifar"}, "data must be"), ({"share": 1.5}, "share must lie in"),
     ({"share": -0.1, "data": "digits"}, "share must lie in")],
)  # fmt: skip
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        mnist_abundance(KEY, 5, 5, **options)


def test_mnist_itself():
    try:
        source = mnist.images("mnist")
    except FileNotFoundError as error:
        pytest.skip(f"no MNIST here: {error}")
    pixels, labels = mnist._mnist()
    assert pixels.shape == (70000, 28, 28) and np.sum(labels == 1) == 7877
    cohort = np.asarray(source.cohort)
    assert len(cohort) == 1900 and set(labels[cohort]) == {1}
    rest = np.setdiff1d(np.flatnonzero(labels == 1), cohort)
    assert mnist.slant(pixels[cohort]).min() >= mnist.slant(pixels[rest]).max()
    which = np.asarray([0, 59999, 60000, 69999])
    # XLA may multiply by 1/255: one rounding more.
    np.testing.assert_allclose(source.pixels(which)[..., 0], pixels[which] / 255, rtol=2.4e-7)
    x, y = mnist_abundance(KEY, 6, 5)
    assert (x.shape, y.shape) == ((6, 28, 28, 1), (5, 28, 28, 1))
    assert float(x.min()) == 0 and 0.9 < float(x.max()) <= 1
