"""Conventions of the public names."""

import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.training import binned, streaming

PUBLIC = [ntk, ntk.theory, ntk.changepoint, ntk.datasets, ntk.calibration, streaming, binned]
MODULES = [
    module.name
    for module in pkgutil.walk_packages(ntk.__path__, "ntkmmd_jax.")
    if not module.name.endswith("__main__")
]
SAME_NAME = {"ntkmmd_jax.changepoint.scan"}  # the design names the function, and the file after it


def keys():
    """The parameters of public functions that are keys: name, place, kind and default."""
    for module in PUBLIC:
        for name in getattr(module, "__all__", None) or dir(module):
            function = getattr(module, name)
            if name.startswith("_") or inspect.isclass(function) or not callable(function):
                continue
            for place, parameter in enumerate(inspect.signature(function).parameters.values()):
                if parameter.name in ("key", "seed", "rng"):
                    yield name, place, parameter


def test_keys_come_first_and_have_no_default():
    found = {name: (place, parameter) for name, place, parameter in keys()}
    # The outermost conveniences:
    outermost = ("two_sample_test", "sharded_test", "k_sample_test", "distance", "plan", "segment")
    for name in outermost:
        place, parameter = found.pop(name)
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert parameter.default == 0
    assert len(found) > 15
    for name, (place, parameter) in found.items():
        first = (place, parameter.name, parameter.default)
        assert first == (0, "key", inspect.Parameter.empty), name


@pytest.mark.parametrize("name", MODULES)
def test_no_name_hides_a_module(name):
    """`import a.b` gives the module b, and no function of that name."""
    module = importlib.import_module(name)
    room, _, leaf = name.rpartition(".")
    found = getattr(importlib.import_module(room), leaf)
    assert found is module or name in SAME_NAME
    assert isinstance(module, ModuleType)


def test_side_by_side_is_a_function_only():
    assert callable(ntk.side_by_side)
    assert "ntkmmd_jax.side_by_side" not in MODULES  # which would hide it once imported


@pytest.mark.parametrize("module", [streaming, binned, ntk.changepoint])
def test_streams_share_a_vocabulary(module):
    assert all(callable(getattr(module, name)) for name in ("init", "step", "load"))
