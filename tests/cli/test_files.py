"""Saved files that are broken, foreign or lie about their size: one `ValueError` naming them."""

import io
import json
import tracemalloc
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint
from ntkmmd_jax._lib.files import load_leaves
from ntkmmd_jax.training import streaming
from ntkmmd_jax.twosample.gaussian import KernelWitness
from ntkmmd_jax.twosample.hotelling import LinearWitness

NETWORK = ntk.mlp(4)
X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)


def result(witness):
    return ntk.TwoSampleResult(
        0.1, 0.5, 0.2, np.ones(19), 0.05, witness, method="m", n_x=20, n_y=20
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A file of every kind, and how to read it."""
    folder = tmp_path_factory.mktemp("saved")
    load = ntk.TwoSampleResult.load
    options = {"window": 4, "stride": 4, "threshold": 1.0}
    exact = ntk.NTKMMD(network=NETWORK)
    params = NETWORK.init(jax.random.key(0), X)
    pool, measure = jnp.asarray(X), ntk.signed_measure(X[:20], X[20:])
    kernel = KernelWitness(measure.points, measure.weights, jnp.ones(2))
    scan = changepoint.Scan(
        jnp.arange(4), jnp.ones((2, 4)), jnp.ones(2), jnp.ones((2, 2)),
        window=(3, 5), stride=4, reference=(0, 20), method="ntk",
    )  # fmt: skip
    pilot = ntk.PilotNull(
        ntk.NTKMMD(network=NETWORK, train_fraction=None), params, pool, jnp.ones(9), sizes=(5, 5)
    )
    things = {
        "ntk": (result(ntk.exact_witness(NETWORK, params, measure)), load),
        "gmmd": (result(kernel), load),
        "hotelling": (result(LinearWitness(jnp.ones(3), jnp.ones(3))), load),
        "scan": (scan, changepoint.Scan.load),
        "state": (changepoint.init(0, X[:20], test=exact, **options), changepoint.load),
        "pilot": (pilot, ntk.PilotNull.load),
        "stream": (streaming.init(NETWORK, params, 3), streaming.load),
    }
    return {
        name: (thing.save(folder / f"{name}.npz"), load) for name, (thing, load) in things.items()
    }


KINDS = ["ntk", "gmmd", "hotelling", "scan", "state", "pilot", "stream"]


def arrays_of(path):
    with np.load(path) as file:
        return dict(file)


def header_of(path):
    return json.loads(arrays_of(path)["header"].tobytes())


def written(path, header, arrays):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    np.savez(path, **{**arrays, "header": np.frombuffer(text, np.uint8)})
    return path


def same(a, b):
    a, b = (jax.tree.leaves(tree) for tree in (a, b))
    return len(a) == len(b) and all(
        np.array_equal(*(jax.random.key_data(v) if _is_key(v) else v for v in pair), equal_nan=True)
        for pair in zip(a, b, strict=True)
    )


def _is_key(leaf):
    return jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key)


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_and_flipped_bytes(saved, kind, tmp_path):
    """Cut anywhere: refused. A bit flipped anywhere: refused, or what was saved."""
    path, load = saved[kind]
    content, whole = path.read_bytes(), load(path)
    broken = tmp_path / "broken.npz"
    rng = np.random.default_rng(1)
    for length in [0, 1, 30, *rng.integers(40, len(content), 8)]:
        broken.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"broken\.npz"):
            load(broken)
    for place in rng.integers(0, len(content), 40):
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(rng.integers(8))
        broken.write_bytes(flipped)
        try:
            found = load(broken)
        except ValueError as error:
            assert "broken.npz" in str(error)
        else:
            assert same(found, whole)


def renamed(header, name):
    return {("x" + key if key == name else key): value for key, value in header.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_foreign_headers(saved, kind, tmp_path):
    path, load = saved[kind]
    arrays, header = arrays_of(path), header_of(path)
    needed = {
        "scan": ("method", "window", "stride", "reference"),
        "state": ("test", "window", "stride", "after", "features"),
        "pilot": ("test", "sizes", "contiguous"),
        "stream": ("network", "features"),
    }.get(kind, ("witness", "method", "n_x", "n_y"))
    headers = [b"", b"[1, 2]", b"3", b"{", b"\xff\xfe", {}, {"kind": header["kind"]}, {"kind": 3}]
    headers += [renamed(header, name) for name in needed]
    headers += [
        {**header, name: {"a": [1]}} for name in needed if name not in ("contiguous", "method")
    ]
    headers += [{**header, "kind": "Something"}]
    for bad in headers:
        with pytest.raises(ValueError, match=r"bad\.npz"):
            load(written(tmp_path / "bad.npz", bad, arrays))


@pytest.mark.parametrize("kind", KINDS)
def test_other_leaves(saved, kind, tmp_path):
    path, load = saved[kind]
    arrays, header = arrays_of(path), header_of(path)
    leaves = {name: leaf for name, leaf in arrays.items() if name != "header"}
    last = f"leaf_{len(leaves) - 1}"
    others = [
        {name: leaf for name, leaf in leaves.items() if name != last},  # one is missing
        {name: leaf for name, leaf in leaves.items() if name != "leaf_0"},
        {**leaves, f"leaf_{len(leaves)}": np.zeros(3)},  # one too many
        {**leaves, "stranger": np.zeros(3)},
        {**leaves, last: np.zeros((2, 7, 1))},  # of another shape
        {**leaves, last: np.array(["a", "b"])},  # no numbers
        {**leaves, last: leaves[last].astype(complex)},
        {},
    ]
    for bad in others:
        with pytest.raises(ValueError, match=r"bad\.npz"):
            load(written(tmp_path / "bad.npz", header, bad))


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_others(saved, kind, tmp_path):
    _, load = saved[kind]
    np.save(tmp_path / "foreign.npy", X)
    np.savez(tmp_path / "foreign.npz", x=X)
    np.savez_compressed(tmp_path / "small.npz", header=np.zeros(3, np.uint8))
    (tmp_path / "foreign.txt").write_text("hello")
    with zipfile.ZipFile(tmp_path / "foreign.zip", "w") as archive:
        archive.writestr("header.npy", b"no array")
    for name in ("foreign.npy", "foreign.npz", "small.npz", "foreign.txt", "foreign.zip"):
        with pytest.raises(ValueError, match=r"foreign|small"):
            load(tmp_path / name)
    others = (path for name, (path, read) in saved.items() if read != load)
    for path in others:
        with pytest.raises(ValueError, match=r"does not hold a .* but a "):
            load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.npz")


def test_objects_are_never_unpickled(tmp_path):
    arrays = {"leaf_0": np.array([{"a": 1}], dtype=object)}
    with pytest.raises(ValueError, match=r"bad\.npz"):
        load_leaves(written(tmp_path / "bad.npz", {"kind": "Scan"}, arrays), "Scan")


def test_nothing_is_allocated_on_the_word_of_an_array(tmp_path):
    """An array of 24 bytes whose header says 8 terabytes."""
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        content, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    )
    path = tmp_path / "bad.npz"
    with zipfile.ZipFile(path, "w") as archive:
        header = io.BytesIO()
        np.save(header, np.frombuffer(json.dumps({"kind": "Scan"}).encode(), np.uint8))
        archive.writestr("header.npy", header.getvalue())
        archive.writestr("leaf_0.npy", content.getvalue() + bytes(24))
    with pytest.raises(ValueError, match=r"bad\.npz .*leaf_0.npy claims"):
        load_leaves(path, "Scan")


@pytest.mark.parametrize("kind", ["ntk", "gmmd", "hotelling", "state", "stream"])
def test_nothing_is_allocated_on_the_word_of_a_header(saved, kind, tmp_path):
    """Shapes of 100 million numbers: refused by the leaves that are there, in little memory."""
    path, load = saved[kind]
    header = header_of(path)
    many = 10**8
    place = header.get("witness", header)
    claims = {"features": [many], "points": [many, 3], "window": many}
    place |= {name: claim for name, claim in claims.items() if name in place}
    bad = written(tmp_path / "bad.npz", header, arrays_of(path))
    before = jax.live_arrays()
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"bad\.npz holds arrays of shapes"):
        load(bad)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6
    assert sum(a.nbytes for a in jax.live_arrays()) <= sum(a.nbytes for a in before) + 1e6
