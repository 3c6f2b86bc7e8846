"""The one importer of neural-tangents: `load()` gives version 0.6.5 working on current JAX.

neural-tangents computes the empirical kernel Θ(x, y) = ∇f(x)·∇f(y) in three ways (1 Jacobian
contraction, 2 NTK-vector products, 3 structured derivatives, 0 the best of them by FLOPs) and the
infinite-width kernels of `stax`. It has had no release since JAX 0.4.25 and does not import on JAX
0.10. Two things are done about it, without a fork:

* while it is being imported, jax is lent the names that have moved, and an empty module stands in
  for `neural_tangents.experimental`, which would import TensorFlow; both are taken back after;
* the private functions of `neural_tangents._src.empirical` that have broken are replaced by
  equivalents written against public JAX. `neural_tangents.predict` is not mended.
"""

import contextlib
import functools
import importlib
import importlib.metadata
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.core
import jax.interpreters.ad as jad
import jax.numpy as jnp
import numpy as np

_VERSION, _TESTED_JAX = "0.6.5", "0.4.35 to 0.10.2"
_NEWEST_MINOR = (0, 10)  # of JAX, among those tested; beyond it `_check` decides
_LOCK = threading.Lock()  # names are lent to jax by one thread at a time


def load() -> types.ModuleType:
    """Import neural-tangents once, repaired for the JAX at hand, and leave jax as it was.

    Returns:
        The module `neural_tangents`, without its `experimental`.

    Raises:
        ImportError: neural-tangents is not installed, or cannot work on this version of JAX.
    """
    with _LOCK:
        return _load_once()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Ignore the warnings that neural-tangents' own code gives, at import and at each trace.

    Like `warnings.catch_warnings`, this holds for all threads while it lasts.
    """
    with warnings.catch_warnings():
        # The compiler names a module by its path, the interpreter by its dotted name.
        warnings.filterwarnings("ignore", module=r"(.*[/\\])?neural_tangents\b")
        yield


@functools.cache  # remembers success only: a failed import is tried afresh
def _load_once() -> types.ModuleType:
    ours = sys.modules.get("neural_tangents") is None  # else the user has imported it already
    try:
        with quiet():
            if ours:
                _forget()  # what an earlier import, failing half way, has left
                with _lent_names():
                    delattr(importlib.import_module("neural_tangents"), "experimental")
            nt = importlib.import_module("neural_tangents")
            _repair(sys.modules["neural_tangents._src.empirical"])
            if jax.__version_info__[:2] > _NEWEST_MINOR or nt.__version__ != _VERSION:
                _check(nt)
    except Exception as error:
        if ours:
            _forget()
        raise ImportError(_explain(error), name="neural_tangents") from error
    return nt


def _forget() -> None:
    for name, module in list(sys.modules.items()):
        # None forbids an import: leave it forbidden.
        if name.split(".")[0] == "neural_tangents" and module is not None:
            del sys.modules[name]


def _explain(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name in ("neural_tangents", "frozendict"):
        return (
            f"{error.name} is missing: `pip install neural-tangents=={_VERSION}`; or, without "
            f"TensorFlow, which is not used here, `pip install --no-deps neural-tangents=="
            f"{_VERSION}` and `pip install frozendict`."
        )
    try:
        found = importlib.metadata.version("neural-tangents")
    except importlib.metadata.PackageNotFoundError:
        found = "(of unknown version)"
    return (
        f"neural-tangents {found} does not work on JAX {jax.__version__}; neural-tangents "
        f"{_VERSION} is known to work on JAX {_TESTED_JAX}. ({type(error).__name__}: {error})"
    )


def _safe_zip(*columns):
    return list(zip(*columns, strict=True))


def _safe_map(f, *columns):
    return [f(*row) for row in zip(*columns, strict=True)]


@contextlib.contextmanager
def _lent_names() -> Iterator[None]:
    """Lend jax the names that neural-tangents imports from it; take them all back."""
    xcore = importlib.import_module("jax.extend.core")  # here, so that its loss is explained
    names = ("Jaxpr", "JaxprEqn", "Literal", "Primitive", "Var")
    lent = [(jax.core, name, getattr(xcore, name)) for name in names]
    lent.append((jad, "zeros_like_p", xcore.Primitive("zeros_like")))
    # `vars`, not `hasattr`: that would set off jax's own warnings on names about to go.
    lent = [(module, name, value) for module, name, value in lent if name not in vars(module)]
    modules: dict[str, Any] = {
        n: types.ModuleType(n) for n in ("jax.util", "neural_tangents.experimental")
    }
    modules["jax.util"].safe_map, modules["jax.util"].safe_zip = _safe_map, _safe_zip
    before = {name: sys.modules[name] for name in modules if name in sys.modules}
    try:
        sys.modules.update(modules)
        for module, name, value in lent:
            setattr(module, name, value)
        yield
    finally:
        for module, name, _ in lent:
            vars(module).pop(name, None)
        for name in modules:
            sys.modules.pop(name, None)
        sys.modules.update(before)


def _repair(emp: Any) -> None:
    """Replace, in `neural_tangents._src.empirical` alone, what current JAX has broken."""
    if emp._eqn_vjp_fn.__module__ != emp.__name__:
        return  # repaired before, by us or by the user
    # Looked up on `ad` and `core` at run time, and partly gone from jax: a namespace of its own.
    names = ("UndefinedPrimal", "Zero", "add_tangents", "is_undefined_primal", "primitive_jvps")
    ad = types.SimpleNamespace(**{name: getattr(jad, name) for name in names})
    ad.source_info_util = types.SimpleNamespace(transform_name_stack=contextlib.nullcontext)
    ad.config = types.SimpleNamespace(jax_enable_checks=False)
    core = types.SimpleNamespace(ShapedArray=jax.core.ShapedArray, DShapedArray=None)
    transposes, axis_and_dtype = jad.primitive_transposes, emp._get_fx_axis_and_dtype

    def primals_out_and_pullback(fn, mode, j_rules, s_rules, fwd, *primals):
        with jax.disable_jit():  # inlines nested `jit`s, as neural-tangents did
            out, fn_linear = jax.linearize(fn, *primals)
            closed = jax.make_jaxpr(fn_linear)(*primals)
        undefined = [ad.UndefinedPrimal(v.aval) for v in closed.jaxpr.invars]

        def pullback(*cts):
            cts = tuple(jax.tree.leaves(cts))
            collected = emp._backward_pass(
                closed.jaxpr, mode, closed.consts, undefined, cts, j_rules, s_rules, fwd
            )
            return jax.tree.unflatten(jax.tree.structure(primals), collected)

        return out, pullback

    def eqn_vjp_fn(eqn, ct, *invals):
        if eqn is None:  # the identity
            return (ct,)
        if eqn.primitive in transposes:
            return transposes[eqn.primitive](ct, *invals, **eqn.params)
        # Newer JAX keeps some rules (`slice`, ...) in a private table; this is the public way.
        if type(ct) is ad.Zero:
            return [ad.Zero(v.aval) for v in eqn.invars]
        linear = [i for i, x in enumerate(invals) if ad.is_undefined_primal(x)]
        args = [jnp.zeros_like(x) if isinstance(x, core.ShapedArray) else x for x in invals]

        def apply(*xs):
            filled = dict(_safe_zip(linear, xs))
            return eqn.primitive.bind(*[filled.get(i, x) for i, x in enumerate(args)], **eqn.params)

        avals = [jax.ShapeDtypeStruct(args[i].aval.shape, args[i].aval.dtype) for i in linear]
        ct = [ct] if eqn.primitive.multiple_results else ct
        cts = dict(_safe_zip(linear, jax.linear_transpose(apply, *avals)(ct)))
        return [cts.get(i) for i in range(len(args))]

    def get_flops(f, optimize, *args, **kwargs):
        try:
            lowered = jax.jit(f).lower(*args, **kwargs)
        except NotImplementedError:  # lets 0 pass over what 3 cannot do
            return float("inf")
        cost: Any = (lowered.compile() if optimize else lowered).cost_analysis()
        return (cost[0] if isinstance(cost, list) else cost)["flops"]

    def on_arrays(f):  # `jnp.size` is about to refuse mere shapes; these arrays take no memory
        zeros = functools.partial(jax.tree.map, lambda x: np.broadcast_to(x.dtype.type(0), x.shape))
        return lambda tree, *rest: f(zeros(tree), *rest)

    emp.ad, emp.core = ad, core
    emp._get_primals_out_and_pullback = primals_out_and_pullback
    emp._get_flops = get_flops
    emp._std_basis = on_arrays(emp._std_basis)
    emp._unravel_array_into_pytree = on_arrays(emp._unravel_array_into_pytree)
    # The original takes `jnp.dtype(array)`, which is deprecated, of each parameter.
    emp._get_fx_axis_and_dtype = lambda fx, axis, params: axis_and_dtype(
        fx, axis, [p.dtype for p in jax.tree.leaves(params)]
    )
    # 0 remembers its choice by this key; the original cannot hash nodes such as `nnx.State`.
    emp._to_tuple_tree = lambda tree: (tuple(jax.tree.leaves(tree)), jax.tree.structure(tree))
    emp._eqn_vjp_fn = eqn_vjp_fn  # last: it marks the module as repaired


def _check(nt: types.ModuleType) -> None:
    """Compare 1, 2 and 3 with the kernel of tanh(x·w), sech²(x·w) sech²(y·w) x·y."""
    x, w = (np.array(a, np.float32) for a in ([[1.0, 2.0], [-0.5, 0.3]], [[0.2], [-0.4]]))
    slope = 1 - np.tanh(x @ w) ** 2
    expected = slope * slope.T * (x @ x.T)
    for implementation in (1, 2, 3):
        kernel = nt.empirical_ntk_fn(lambda w, x: jnp.tanh(x @ w), implementation=implementation)
        with jax.ensure_compile_time_eval():  # `load` may be called while something is traced
            error = np.abs(kernel(x, None, w) - expected)
        if not error.max() < 0.05:  # loose: some devices multiply matrices in low precision
            raise RuntimeError(f"implementation {implementation} gives a wrong kernel")
