"""Few points have programs that are soon compiled, and the same p-values."""

import jax
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import datasets
from ntkmmd_jax._lib import quick
from ntkmmd_jax.twosample import contract
from tests.processes import answer, launch

# Without the flags of the tests, under which all programs are soon compiled.
SCRIPT = """
import dataclasses
from ntkmmd_jax import datasets
from ntkmmd_jax.pooled import in_bucket
from ntkmmd_jax.twosample import contract, shipped_test
x, y = datasets.mean_shift(jax.random.key(0), 60, 50, delta=0.5, dim=5)
found = {}
for method in ("gmmd", "ntk", "ntk-symmetric"):
    both = [
        program(shipped_test(method), jax.random.key(1), in_bucket(x, y))
        for program in (contract.run_program, contract.run_quickly)
    ]
    found[method] = [(float(r.statistic), float(r.pvalue)) for r in both]
print(json.dumps(found))
"""


def test_the_same_pvalues(monkeypatch):
    """And statistics up to the rounding of sums of some hundred terms."""
    monkeypatch.setenv("XLA_FLAGS", "")
    for both in answer(launch(SCRIPT)).values():
        (thorough, p), (soon, q) = both
        assert p == q
        np.testing.assert_allclose(soon, thorough, rtol=1e-5)


def sizes():
    return contract.run_program._cache_size(), contract.run_quickly._cache_size()


def test_which_programs_are_soon_compiled():
    test = ntk.GaussianMMD(n_permutations=97)
    samples = [datasets.mean_shift(jax.random.key(0), n, n, delta=0.5, dim=2) for n in (40, 260)]
    thorough, soon = sizes()
    ntk.two_sample_test(*samples[0], method=test)
    assert sizes() == (thorough, soon + 1)
    ntk.two_sample_test(*samples[1], method=test)  # it would run for long
    assert sizes() == (thorough + 1, soon + 1)
    test(0, *samples[0])  # as in a loop
    assert sizes() == (thorough + 2, soon + 1)


def test_only_cpus_have_them(monkeypatch):
    monkeypatch.setattr(quick.jax, "default_backend", lambda: "gpu")
    assert not quick.is_for_here()


def test_unknown_options_are_refused():
    """So that a compiler without one of ours is not silently slow."""
    with pytest.raises(Exception, match="xla_no_such_option"):
        jax.jit(lambda x: x, compiler_options={"xla_no_such_option": True})(1.0)
