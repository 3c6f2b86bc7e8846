"""The call by name: a table of methods, and `two_sample_test`."""

import dataclasses
import difflib
import importlib
import math
from collections.abc import Iterable
from typing import Any

from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.points import as_samples, check_finite, column_names
from ntkmmd_jax._lib.progress import working
from ntkmmd_jax.twosample.adaptive import Adaptive
from ntkmmd_jax.twosample.contract import TwoSampleTest
from ntkmmd_jax.twosample.result import TwoSampleResult
from ntkmmd_jax.twosample.stratified import pairs, stratified_test

_METHODS: dict[str, tuple[str, dict[str, Any], str]] = {  # "module:class", what is fixed, a line
    "net": ("ntk:NetMMD", {}, "network trained for a short time on one half, scored on the other"),
    "ntk": ("ntk:NTKMMD", {}, "exact NTK witness from one half, scored on the other; linear time"),
    "ntk-full": (
        "ntk:NTKMMD",
        {"calibration": "full"},
        "exact NTK, labels of both halves permuted",
    ),
    "ntk-symmetric": (
        "ntk:NTKMMD",
        {"train_fraction": None},
        "exact NTK-MMD² of all data, no split",
    ),
    "ntk-fuse": (
        "fused:FusedNTK",
        {},
        "many networks and scales, all data, one p-value; linear time",
    ),
    "bet": ("bet:BettingTest", {}, "witnesses that learn and bet, pair by pair; valid at any time"),
    "gmmd": ("gaussian:GaussianMMD", {}, "Gaussian-kernel MMD², median bandwidth; quadratic time"),
    "gmmd-lin": (
        "linear_time:LinearTimeMMD",
        {},
        "Gaussian-kernel MMD² over disjoint pairs; linear time",
    ),
    "mmd-fuse": (
        "fuse:MMDFuse",
        {},
        "20 Gaussian and Laplace MMD², fused; all data, quadratic time",
    ),
    "mmd-agg": ("agg:MMDAgg", {}, "the same kernels, by their smallest p-value, one exact p-value"),
    "hotelling": (
        "hotelling:Hotelling",
        {},
        "Hotelling's T² of the means; F law, exact for Gaussian samples",
    ),
    "c2st-s": (
        "c2st:C2ST",
        {"score": "accuracy"},
        "classifier trained on one half, accuracy on the other",
    ),
    "c2st-l": (
        "c2st:C2ST",
        {"score": "logit"},
        "classifier trained on one half, mean logit on the other",
    ),
    "me": (
        "embedding:MeanEmbedding",
        {},
        "mean embeddings at locations optimised on one half, compared on the other",
    ),
    "scf": (
        "embedding:SmoothCF",
        {},
        "smooth characteristic functions at optimised frequencies, likewise",
    ),
}


DEFAULT = "ntk-fuse"


def methods() -> dict[str, str]:
    """The known methods, name to one line.

    Example:
        >>> methods()["gmmd"]
        'Gaussian-kernel MMD², median bandwidth; quadratic time'
    """
    return {name: line for name, (_, _, line) in _METHODS.items()}


def _class(method: str) -> type[TwoSampleTest]:
    """The class of a method: only tests that are asked for are imported."""
    module, name = _METHODS[method][0].split(":")
    return getattr(importlib.import_module(f"ntkmmd_jax.twosample.{module}"), name)


def make_test(method: str | TwoSampleTest, **options: Any) -> TwoSampleTest:
    """The test of a name in `methods()`, with its options; a test object passes as it is.

    Args:
        method: A name, or a test object.
        **options: Of the class of that method: `help(ntk.NTKMMD)` and so on.

    Example:
        >>> make_test("ntk", level=0.01)
        NTKMMD(level=0.01)
    """
    if isinstance(method, TwoSampleTest):
        if options:
            raise TypeError(
                f"a test object carries its own options; got {sorted(options)} beside it"
            )
        return method
    if method not in _METHODS:
        near = difflib.get_close_matches(str(method), _METHODS, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(
            f"unknown method {method!r}{hint}; the known ones are {', '.join(_METHODS)}"
        )
    constructor, fixed = _class(method), _METHODS[method][1]
    known = {field.name for field in dataclasses.fields(constructor)} - set(fixed)
    if unknown := sorted(set(options) - known):
        raise TypeError(f"method {method!r} has no option {unknown}; it has {sorted(known)}")
    return constructor(**fixed, **options)


def default_method(options: Iterable[str] = ()) -> str:
    """The method of a call without one: DEFAULT, or "net" if it has an option and DEFAULT not."""
    if not (options := set(options)):
        return DEFAULT
    own, of_net = (
        {field.name for field in dataclasses.fields(_class(name))} for name in (DEFAULT, "net")
    )
    return "net" if (options - own) & of_net else DEFAULT


def shipped_test(method: str, *, standardize: bool | None = None, **options: Any) -> TwoSampleTest:
    """The test of a name as `two_sample_test` runs it: standardised, if it has a network.

    A pretrained network, whose weights belong to points as they are, sees them as they are.
    """
    test = make_test(method, **options)
    if standardize is None:
        pretrained = any(network.pretrained for network in test.networks)
        standardize = (test.standardize or bool(test.networks)) and not pretrained
    return dataclasses.replace(test, standardize=standardize)


def two_sample_test(
    x: Any,
    y: Any,
    *,
    method: str | TwoSampleTest | None = None,
    key: Any = 0,
    level: float = 0.05,
    n_permutations: int | str = 400,
    standardize: bool | None = None,
    strata: tuple[Any, Any] | None = None,
    groups: tuple[Any, Any] | None = None,
    paired: bool = False,
    **options: Any,
) -> TwoSampleResult:
    """Test whether two samples come from the same distribution.

    Args:
        x: Sample of p, anything array-like, one row per sample. A flat sequence has one feature.
        y: Sample of q, with the same features; the sizes may differ. Where both are data frames,
            columns are matched by name.
        method: A name in `methods()`, or a test object with options of its own. By default
            "ntk-fuse", which takes all data and many scales in linear time; "net", the paper's,
            where an option is given that only it has.
        key: An int seed or a JAX key. The same key gives the same answer.
        level: The probability of a false rejection under H0: exact with the default calibrations
            (at most that with ties), but for "hotelling", whose law is that of Gaussian samples.
        n_permutations: Label permutations behind the p-value, where it comes from them; or
            "adaptive": as many as the verdict takes, which is calibration=Adaptive().
        standardize: Whether the test sees every coordinate with mean 0 and spread 1 of the pooled
            sample (images: every channel); the witness takes points as they are all the same. By
            default, methods that have a network do, unless it is pretrained: on data of other
            scales it sees little.
        strata: The stratum of every point of x, and of y (a hospital, a day): labels are permuted
            within strata only, where samples differ in what is not asked about. For tests of all
            data: "ntk-fuse", "ntk-symmetric", "gmmd", "mmd-fuse", "mmd-agg".
        groups: The group of every point of x, and of y (a patient, a day, a block), whose points
            depend on each other: whole groups are relabelled. No group is in both samples. For the
            same tests; with strata, within them.
        paired: Whether x_i and y_i belong together (before and after): labels swap within pairs.
        **options: Options of the method, such as `network` and `learning_rate` for "net".

    Returns:
        A `TwoSampleResult` in Python numbers: statistic, pvalue, threshold, reject, null, witness.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(200, 5)), rng.normal(size=(150, 5)) + 0.5
        >>> two_sample_test(x, y).reject
        True
    """
    if method is None:
        method = default_method(options)
    if isinstance(method, TwoSampleTest):
        if (level, n_permutations, standardize) != (0.05, 400, None):
            raise TypeError(
                "a test object carries its own level, n_permutations and standardize: set them "
                "there"
            )
        test = make_test(method, **options)
    else:
        if n_permutations == "adaptive":
            options = {"calibration": Adaptive(), **options}
        else:
            options = {"n_permutations": n_permutations, **options}
        options = {"level": level, **options}
        test = shipped_test(method, standardize=standardize, **options)
    names, (x, y) = column_names(x, y), as_samples(x, y)
    check_finite(x, "x")
    check_finite(y, "y")
    if paired:
        if strata is not None or groups is not None:
            raise ValueError("pairs are strata of their own: give paired=True, or strata or groups")
        strata = pairs(len(x), len(y))
    with working(test.method):
        if strata is None and groups is None:
            result = test.in_bucket(as_key(key), x, y).concrete()
        else:
            result = stratified_test(test, as_key(key), x, y, strata, groups).concrete()
    if math.isnan(result.pvalue):
        raise ValueError(
            f"{result.method} has no verdict: its statistic is not a number. The training diverges "
            "(take a smaller learning_rate), or numbers of this size overflow (rescale the data)"
        )
    designs = {"groups": groups, "pairs": paired or None, "strata": strata}
    within = next((name for name, given in designs.items() if given is not None), None)
    return dataclasses.replace(result, names=names, within=within)
