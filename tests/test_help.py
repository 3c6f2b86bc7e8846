"""`help()` of the public surface: every parameter explained, every name of the top used once."""

import doctest
import importlib
import inspect
import re
from types import ModuleType

import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax._lib.help import explained

ROOMS = ["calibration", "changepoint", "datasets", "sequential", "theory", "kernels", "training"]
ROOMS += ["networks"]
# What calls give back, shown by the examples of these calls.
RESULTS = {"Comparison", "KSampleResult", "Plan", "PowerTable", "SideBySide", "Trajectory"}
RESULTS |= {"EstimatedMMD", "Explanation", "ToleranceResult"}
RESULTS |= {"Distance", "PilotNull", "TwoSampleResult", "TwoSampleTest"}


NOT_HERE = {"use_cores"}  # which must come before the first use of JAX
NOT_HERE |= {"Full", "Asymptotic", "Bound"}  # without options of their own, used as `Normal` is


def surface():
    """Every public function and class, once: name and object."""
    modules = [ntk, *(importlib.import_module(f"ntkmmd_jax.{room}") for room in ROOMS)]
    queue, found = [(module, module.__all__) for module in modules], {}
    for module, names in queue:
        for name in names:
            one = getattr(module, name)
            if isinstance(one, ModuleType) and one not in modules:
                own = [
                    n for n, v in vars(one).items() if getattr(v, "__module__", 0) == one.__name__
                ]
                queue.append((one, [n for n in own if not n.startswith("_")]))
                modules.append(one)
            elif getattr(one, "__module__", "").startswith("ntkmmd_jax") and callable(one):
                found.setdefault(id(one), (f"{module.__name__}.{name}", one))
    return dict(found.values())


SURFACE = surface()


def test_there_is_a_surface():
    assert len(SURFACE) > 120


@pytest.mark.parametrize("name", SURFACE)
def test_every_parameter_is_explained(name):
    one = SURFACE[name]
    parameters = [p for p in inspect.signature(one).parameters if not p.startswith("_")]
    doc = inspect.getdoc(one) or ""
    missing = [p for p in parameters if not re.search(r"\w", explained(doc).get(p, ""))]
    assert not missing, f"`Args:` of {name} says nothing of {missing}"
    unknown = set(explained(doc)) - set(parameters)
    assert inspect.isclass(one) or not unknown, f"`Args:` of {name} speaks of {unknown}"


@pytest.mark.parametrize("name", sorted(set(ntk.__all__) - RESULTS - NOT_HERE))
def test_every_name_of_the_top_has_an_example(name):
    """Of a module, one in any of its functions will do."""
    one = getattr(ntk, name)
    several = vars(one).values() if isinstance(one, ModuleType) else [one]
    assert any(">>>" in (inspect.getdoc(part) or "") for part in [one, *several])


def test_examples_are_run():
    """By pytest's `--doctest-modules`, which finds what the finder finds in a module."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    missed = []
    for name, one in SURFACE.items():
        if ">>>" in (one.__doc__ or ""):
            module = importlib.import_module(one.__module__)
            found = {test.name for test in finder.find(module, module.__name__)}
            missed += [name] if f"{one.__module__}.{one.__qualname__}" not in found else []
    assert not missed, f"wrapped, so that doctest does not see them: {missed}"


def test_sections_are_read():
    text = "One.\n\nArgs:\n    a: First,\n        in two lines.\n    **b: Others.\n\nReturns:\n  c"
    assert explained(text) == {"a": "First, in two lines.", "b": "Others."}
    assert explained("No section.") == {}


def test_options_of_a_base_are_in_the_help_of_a_test():
    """Once written down, for all."""
    for test in (ntk.Hotelling, ntk.NetMMD, ntk.C2ST, ntk.FusedNTK):
        said, base = explained(inspect.getdoc(test)), explained(inspect.getdoc(ntk.TwoSampleTest))
        assert said["shared_pool"] == base["shared_pool"]
    assert re.search(r"^Args:\n(    .*\n)+\nExample:", inspect.getdoc(ntk.FusedNTK), re.M)
