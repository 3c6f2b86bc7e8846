"""What products in TF32 and bfloat16 cost: in T_NTK, in the order of `compare`, in level and power.

    python benchmarks/precision.py [RUNS [METHOD ...]]

No accelerator is needed: a product that asks for less than float32, as it does within
`ntk.precision("tensorfloat32")` or `("bfloat16")`, has its operands rounded to 10 or 7 bits of
mantissa here, and is summed in float32. That is what GPUs do for either name (TF32), and TPUs for
the second; for the first they take three passes of bfloat16, which is more exact than TF32.
"""

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.interpreters import mlir  # what a product is lowered by has no public name

import ntkmmd_jax as ntk
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax.measure import mean_gap

NAMES = ("float32", "tensorfloat32", "bfloat16")
MANTISSA = {jax.lax.Precision.HIGH: 10, jax.lax.Precision.DEFAULT: 7}
METHODS = ("net", "ntk", "ntk-symmetric", "ntk-fuse", "gmmd", "c2st-l")
DIM, N = 20, 100
NETWORK = ntk.mlp(512)
SHIFTS = (0.0, 0.3)  # H0, and a covariance shift
TIMES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)


def emulate():
    """Lower every product of a CPU as hardware would do it that honours its precision."""
    for primitive in (jax.lax.dot_general_p, jax.lax.conv_general_dilated_p):
        known = mlir._platform_specific_lowerings["cpu"]
        plain = known.get(primitive) or mlir._lowerings[primitive]
        rule = functools.partial(_rounded_lowering, getattr(plain, "rule", plain))
        mlir.register_lowering(primitive, rule, platform="cpu")


def _rounded_lowering(plain, context, *operands, precision, **params):
    bits = MANTISSA.get(precision[0] if precision else None)
    if bits is not None:
        rounded = mlir.lower_fun(
            lambda *ab: [jax.lax.reduce_precision(one, 8, bits) for one in ab],
            multiple_results=True,
        )
        of_operands = context.replace(primitive=None, avals_out=context.avals_in)
        operands = [one for (one,) in map(_single, rounded(of_operands, *operands))]
    return plain(context, *operands, precision=precision, **params)


def _single(value):
    return value if isinstance(value, list | tuple) else (value,)


def check_emulation():
    """1 + 2⁻⁹ is kept by TF32 and is 1 in bfloat16; sums are those of float32."""
    a = jnp.full((1, 3), 1 + 2.0**-9)
    found = []
    for name in NAMES:
        with ntk.precision(name):
            found.append(float(_square(a)[0, 0]))
    exact = 3 * (1 + 2.0**-9) ** 2
    assert found == [np.float32(exact), np.float32(exact), 3.0], found


@jit
def _square(a):
    return a @ a.T


def samples(key, rho=0.3):
    return ntk.datasets.covariance_shift(key, N, N, rho=rho, dim=DIM)


def exact(params, points, weights):
    """T_NTK and the witness at the points in float64, by the closed form of the kernel."""
    layer, readout = (params["params"][name] for name in ("layer_1", "readout"))
    z, kernel, bias, a = (
        np.asarray(one, np.float64)
        for one in (points, layer["kernel"], layer["bias"], readout["kernel"])
    )
    slope = a / (1 + np.exp(-(z @ kernel + bias)))
    scores = ((1 + z @ z.T) * (slope @ slope.T)) @ weights
    return weights @ scores, scores


def errors(name, draws=20):
    """The largest relative error of T_NTK, and of a score in units of their spread."""
    of_t, of_scores = [], []
    for i in range(draws):
        k_data, k_init = jax.random.split(jax.random.key(i))
        measure = ntk.signed_measure(*samples(k_data))
        params = NETWORK.init(k_init, measure.points)
        with ntk.precision(name):
            scores = ntk.exact_witness(NETWORK, params, measure)(measure.points)
            t = float(mean_gap(scores, measure.weights))
        weights = np.repeat([1 / N, -1 / N], N)
        expected, expected_scores = exact(params, measure.points, weights)
        of_t.append(abs(t / expected - 1))
        of_scores.append(np.abs(scores - expected_scores).max() / expected_scores.std())
    return max(of_t), max(of_scores)


def comparisons(name):
    """The order that `compare` fits, and |T_net − T_NTK| / T_NTK as a user would take it."""
    with ntk.precision(name):
        found = ntk.compare(0, *samples(jax.random.key(0)), network=NETWORK, times=TIMES)
    return float(found.order), np.abs(found.t_net / found.t_ntk - 1)


def pvalues(method, name, runs):
    """p-values of replicas at each shift, (shifts, runs); the same data at every precision."""
    test = ntk.make_test(method)

    @jax.jit
    def at(rho, keys):
        def replica(key):
            k_data, k_test = jax.random.split(key)
            return test(k_test, *samples(k_data, rho)).pvalue

        return jax.lax.map(replica, keys, batch_size=8)

    with ntk.precision(name):
        keys = jax.random.split(jax.random.key(1), runs)
        return np.stack([at(rho, keys) for rho in SHIFTS])


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    methods = sys.argv[2:] or METHODS
    emulate()
    check_emulation()
    print(f"T_NTK at {N} + {N} points, d = {DIM}, against float64: worst of 20\n")
    print("| products | T_NTK, relative | a score, of the spread | order of `compare` | "
          + " | ".join(f"T_net / T_NTK − 1 at t = {t:g}" for t in TIMES) + " |")  # fmt: skip
    print("|---" * (4 + len(TIMES)) + "|")
    for name in NAMES:
        of_t, of_scores = errors(name)
        order, gaps = comparisons(name)
        cells = (f"{of_t:.1e}", f"{of_scores:.1e}", f"{order:.3f}", *(f"{g:.1e}" for g in gaps))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    band = 1.96 * np.sqrt(0.05 * 0.95 / runs)
    print(f"\n{runs} replicas; the level of a test at 5 % is within {0.05 - band:.4f} to "
          f"{0.05 + band:.4f} in 95 % of runs\n")  # fmt: skip
    columns = ("method", "products", "level", f"power at ρ = {SHIFTS[1]}")
    print("| " + " | ".join((*columns, "other p-values", "other verdicts")) + " |")
    print("|---" * 6 + "|", flush=True)
    for method in methods:
        plain = None
        for name in NAMES:
            p = pvalues(method, name, runs)
            plain = p if plain is None else plain
            level, power = (p <= 0.05).mean(1)
            moved, turned = (p != plain).mean(), ((p <= 0.05) != (plain <= 0.05)).mean()
            print(f"| {method} | {name} | {level:.4f} | {power:.4f} | {moved:.2%} | {turned:.2%} |",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
