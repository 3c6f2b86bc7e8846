"""Products are those of float32 whatever JAX's default is; only a `with` of ours changes it."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

import ntkmmd_jax as ntk
from ntkmmd_jax._lib.precision import jit, pinned
from ntkmmd_jax.kernels import gaussian_kernel
from ntkmmd_jax.theory.convergence import fitted_slope
from ntkmmd_jax.twosample import embedded, hotelling

ROOT = Path(ntk.__file__).parent
OWN_JIT = ("_lib/precision.py", "_lib/neural_tangents.py", "networks/check.py")  # no result of ours
FLOAT32, HIGH, DEFAULT = (getattr(jax.lax.Precision, n) for n in ("HIGHEST", "HIGH", "DEFAULT"))
KEY, X = jax.random.key(0), jnp.ones((6, 3))
NETWORK, DEEP, IMAGES = ntk.mlp(4), ntk.mlp((4, 4)), ntk.convnet((2,), width=4)
PICTURES = jnp.ones((2, 12, 12))


def parameters(network, x):
    """Of the right shapes: programs are looked at here, and not run."""
    shapes = jax.eval_shape(network.init, KEY, x)
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


PARAMS, DEEP_PARAMS = (parameters(network, X) for network in (NETWORK, DEEP))
IMAGE_PARAMS = parameters(IMAGES, PICTURES)
NAMES = {"bfloat16": DEFAULT, "tensorfloat32": HIGH, "float32": FLOAT32}


def equations(jaxpr):
    """The equations of a program, those of loops and of programs inside too."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jaxprs_in_params(eqn.params):
            yield from equations(inner)


def precisions(function, *args):
    """The precision of every product and convolution in the program of a function."""
    return [
        (eqn.params["precision"] or (None,))[0]
        for eqn in equations(jax.make_jaxpr(function)(*args).jaxpr)
        if eqn.primitive.name in ("dot_general", "conv_general_dilated")
    ]


def products(x):
    """One in a loop, one under vmap, one by itself."""
    total, _ = jax.lax.scan(lambda total, row: (total + row @ row, None), 0.0, x)
    return total + jax.vmap(lambda row: x @ row)(x).sum() + jnp.vdot(x, x)


@pytest.mark.parametrize("of", [jit, jit(static_argnums=()), pinned])
def test_products_are_pinned_in_loops_gradients_and_maps(of):
    function = of(products)
    for program, x, least in (
        (function, X, 3),
        (jax.grad(function), X, 6),
        (jax.vmap(function), X[None], 3),
        (jax.jit(lambda x: function(x)), X, 3),
    ):
        found = precisions(program, x)
        assert len(found) >= least and set(found) == {FLOAT32}


def test_the_users_own_products_keep_their_default():
    function = jit(products)
    found = precisions(lambda x: (x.T @ x, function(x), x @ x.T), X)
    assert found == [None, FLOAT32, FLOAT32, FLOAT32, None]
    with jax.default_matmul_precision("bfloat16"):
        found = precisions(lambda x: (x.T @ x, function(x), x @ x.T), X)
    assert found == [DEFAULT, FLOAT32, FLOAT32, FLOAT32, DEFAULT]


def test_the_switch_holds_within_its_with():
    """Programs are cached: neither one traced before nor one traced within may be used again."""
    function = jit(products)
    users = jax.jit(lambda x: function(x))
    for program in (function, users):
        assert set(precisions(program, X)) == {FLOAT32}
        for name, expected in (
            ("bfloat16", DEFAULT),
            ("tensorfloat32", HIGH),
            ("float32", FLOAT32),
        ):
            with ntk.precision(name):
                assert set(precisions(program, X)) == {expected}
                with ntk.precision("float32"):
                    assert set(precisions(program, X)) == {FLOAT32}
        assert set(precisions(program, X)) == {FLOAT32}


def test_a_program_is_compiled_once_a_precision():
    function = jit(lambda x: x @ x.T)
    for _ in range(2):
        function(X)
        with ntk.precision("bfloat16"):
            function(X)
    assert function._cache_size() == 2


@pytest.mark.parametrize("name", ["fp32", "highest", None])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="one of float32, tensorfloat32, bfloat16, got"):
        ntk.precision(name)


def both(x):
    return ntk.signed_measure(x, x + 1)


def trained(x):
    return ntk.trajectory(KEY, NETWORK, PARAMS, both(x), sgd=ntk.SGD())


EAGER = {
    "witness": lambda x: ntk.exact_witness(NETWORK, PARAMS, both(x))(x),
    "witness of a convolution": lambda x: ntk.exact_witness(
        IMAGES, IMAGE_PARAMS, both(PICTURES + x[0, 0])
    )(PICTURES),
    "trajectory": lambda x: trained(x).statistics(both(x)),
    "closed form": lambda x: ntk.two_layer_ntk(NETWORK, PARAMS, x),
    "neural-tangents": lambda x: ntk.empirical_ntk(
        DEEP, DEEP_PARAMS, x, implementation="structured"
    ),
    "infinite width": lambda x: ntk.infinite_ntk(ntk.mlp(4, initialization="ntk"), x),
    "Gaussian": lambda x: gaussian_kernel(x, x + 1, 1.0),
    "scores": lambda x: (
        ntk.calibration.score_null(ntk.calibration.relabel(KEY, 3, 3, 9), x[:, 0]).values
    ),
    "slope": lambda x: fitted_slope(x[0], x[1]),
    "linear witness": lambda x: hotelling.LinearWitness(x[0], x[1])(x),
    "embedding": lambda x: embedded.EmbeddingWitness(
        embedded.Embedding(x[:2], x[0, 0], x[0], method="scf"), jnp.ones(4), features=(3,)
    )(x),
}


@pytest.mark.parametrize("name", EAGER)
def test_what_a_user_calls_by_itself_is_pinned(name):
    found = precisions(EAGER[name], X)
    assert found and set(found) == {FLOAT32}


def test_one_place_says_so():
    """Every program of the package goes through `jit`, and no product has a keyword."""
    for path in ROOT.rglob("*.py"):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
        assert name in OWN_JIT or ("jax.jit(" not in text and "@jax.jit" not in text), name
        assert 'precision="' not in text and "lax.Precision" not in text, name
