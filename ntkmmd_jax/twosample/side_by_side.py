"""Trained and exact side by side: what one shows in a talk, as a table and as a picture.

For each network: T_net(t) against T_NTK and the drift of the kernel, over training times, with
their fitted orders. On a common split: the trained and the exact witness at the held-out points,
and the three tests net, ntk1 (test-only bootstrap) and ntk2 (full bootstrap).
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.points import as_samples, check_finite
from ntkmmd_jax._lib.records import record
from ntkmmd_jax.networks import as_network, mlp
from ntkmmd_jax.theory.comparison import Comparison, compare
from ntkmmd_jax.theory.drift import KernelDrift, kernel_drift
from ntkmmd_jax.twosample import NTKMMD, NetMMD, TwoSampleResult

TIMES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)


@record
class SideBySide:
    """What `side_by_side` found."""

    comparisons: dict[str, Comparison]  # of trained with exact, by network
    drifts: dict[str, KernelDrift]  # by network
    scores: tuple[jax.Array, jax.Array]  # the trained and the exact witness at x, then y
    results: dict[str, TwoSampleResult]  # net, ntk1, ntk2, of the first network
    n_x: int  # how many of the scores are at x

    def __repr__(self) -> str:
        lines = [f"{'network':12}{'t':>8}{'T_net(t)':>14}{'T_NTK':>14}{'error':>10}{'drift':>10}"]
        for name, found in self.comparisons.items():
            drift = self.drifts[name].drift / self.drifts[name].scale
            columns = (found.times, found.t_net, found.relative_error, drift)
            lines += [
                f"{name:12}{t:8.0e}{net:14.6g}{float(found.t_ntk):14.6g}{error:10.1e}{moved:10.1e}"
                for t, net, error, moved in zip(*(c.tolist() for c in columns), strict=True)
            ]
            orders = f"{float(found.order):.2f} of the error, {float(self.drifts[name].order):.2f}"
            lines.append(f"{name:12}fitted order {orders} of the drift")
        lines += ["", f"{'test':8}{'statistic':>12}{'threshold':>12}{'p-value':>10}"]
        for name, r in self.results.items():
            numbers = (float(r.statistic), float(r.threshold), float(r.pvalue))
            lines.append(f"{name:8}{numbers[0]:12.5g}{numbers[1]:12.5g}{numbers[2]:10.3g}")
        trained, exact = self.scores
        lines.append(
            f"correlation of the witnesses: {float(jnp.corrcoef(trained, exact)[0, 1]):.6f}"
        )
        return "\n".join(lines)

    def plot(self) -> Any:
        """Four panels: errors, drifts, witnesses, and the nulls; returns the matplotlib figure."""
        from ntkmmd_jax import plotting

        return plotting.side_by_side(self)


def side_by_side(
    key: Any,
    x: Any,
    y: Any,
    *,
    networks: Mapping[str, Any] | None = None,
    times: Any = TIMES,
    learning_rate: float = 0.1,
    n_permutations: int = 400,
    level: float = 0.05,
) -> SideBySide:
    """Compare training with the exact kernel on two samples, for one or several networks.

    Args:
        key: A JAX key or an int seed.
        x: Sample of p, array-like.
        y: Sample of q.
        networks: Networks by name; by default the paper's, with softplus and with relu.
        times: Training times of the comparison and the drift.
        learning_rate: α of the test `net`.
        n_permutations: Of the tests.
        level: Of the tests.

    Example:
        >>> z = jax.random.normal(jax.random.key(0), (2, 30, 2))
        >>> side_by_side(0, *z, networks={"mine": mlp(8)}).plot()  # doctest: +SKIP
    """
    x, y = as_samples(x, y)
    check_finite(x, "x")
    check_finite(y, "y")
    if networks is None:
        networks = {name: mlp(activation=name) for name in ("softplus", "relu")}
    if not networks:
        raise ValueError("no networks given: name at least one, as {'mine': mlp(128)}")
    networks = {str(name): as_network(network) for name, network in networks.items()}
    k_compare, k_tests = jax.random.split(as_key(key))
    comparisons, drifts = {}, {}
    for name, network in networks.items():
        options = {"network": network, "times": times}
        comparisons[name] = compare(k_compare, x, y, **options)
        drifts[name] = kernel_drift(k_compare, x, y, **options)
    options = {
        "network": next(iter(networks.values())),
        "n_permutations": n_permutations,
        "level": level,
    }
    tests = {
        "net": NetMMD(learning_rate=learning_rate, **options),
        "ntk1": NTKMMD(**options),
        "ntk2": NTKMMD(calibration="full", **options),
    }
    results = {name: test(k_tests, x, y) for name, test in tests.items()}  # one split, one θ0
    points = jnp.concatenate([x, y])
    scores = (results["net"].witness(points), results["ntk1"].witness(points))
    return SideBySide(comparisons, drifts, scores, results, len(x))
