"""Calibrations as objects: words and objects say the same, and refusals say what does apply."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.twosample.calibrations import Asymptotic, Bound, Full, Normal, Permutation

OBJECTS = {
    "test": Permutation(),
    "permutation": Permutation(),
    "full": Full(),
    "normal": Normal(),
    "asymptotic": Asymptotic(),
    "theory": Bound(),
}
APPLY = {
    "net": (ntk.NetMMD, {}, {"test", "permutation", "full", "normal"}),
    "net, symmetric": (ntk.NetMMD, {"train_fraction": None}, {"full"}),
    "ntk": (ntk.NTKMMD, {}, {"test", "permutation", "full", "normal", "theory"}),
    "ntk-symmetric": (ntk.NTKMMD, {"train_fraction": None}, {"full", "asymptotic", "theory"}),
    "gmmd": (ntk.GaussianMMD, {}, {"full", "asymptotic"}),
    "gmmd-lin": (ntk.LinearTimeMMD, {}, {"permutation", "normal"}),
    "hotelling": (ntk.Hotelling, {}, {"asymptotic"}),
    "hotelling, shrunk": (ntk.Hotelling, {"shrinkage": 0.1}, {"permutation"}),
    "c2st": (ntk.C2ST, {}, {"test", "permutation", "normal"}),
    "me": (ntk.MeanEmbedding, {}, {"test", "permutation", "asymptotic"}),
    "scf": (ntk.SmoothCF, {}, {"test", "permutation", "asymptotic"}),
}


@pytest.mark.parametrize(("name", "word"), list(itertools.product(APPLY, OBJECTS)))
def test_what_applies_is_taken_and_the_rest_refused(name, word):
    made, options, apply = APPLY[name]
    if word in apply:
        for given in (word, OBJECTS[word]):
            test = made(calibration=given, **options)
            assert type(test.calibration) is type(OBJECTS[word])
            assert dataclasses.replace(made(**options), calibration=given).method == test.method
        return
    with pytest.raises(ValueError, match=f"'{word}' does not apply to {made.__name__}") as error:
        made(calibration=word, **options)
    listed = set(str(error.value).split("(")[1].split(")")[0].replace("'", "").split(", "))
    assert {found.rstrip(",") for found in listed} == apply - (
        {"permutation"} if "test" in apply else set()
    )
    if not (word == "test" and "permutation" in apply):  # the word, not the object, is refused
        with pytest.raises(ValueError, match="does not apply"):
            made(calibration=OBJECTS[word], **options)


def test_a_pilot_is_refused_where_there_is_a_split():
    pool = np.random.default_rng(0).normal(size=(60, 2))
    pilot = ntk.pilot_null(0, pool, 10, test=ntk.NTKMMD(network=ntk.mlp(4)), n_draws=19)
    with pytest.raises(ValueError, match="'pilot' does not apply to NTKMMD with a split; use one"):
        ntk.NTKMMD(calibration=pilot)
    with pytest.raises(ValueError, match=r"use one of \('full', 'asymptotic'\), or a PilotNull"):
        ntk.GaussianMMD(calibration="test")


def test_numbers_of_a_permutation_are_options_of_the_test():
    test = ntk.NTKMMD(network=ntk.mlp(4), calibration=Permutation(99, shared_pool=True))
    assert (test.n_permutations, test.shared_pool) == (99, True)
    again = dataclasses.replace(test, n_permutations=39)
    assert again.calibrated_by.n_permutations == 39
    assert dataclasses.replace(again, calibration="full").calibrated_by.n_permutations == 39
    x, y = np.random.default_rng(0).normal(size=(2, 20, 2))
    assert again(0, x, y).null.shape == (39,)
    with pytest.raises(ValueError, match="cannot reach level"):
        ntk.NTKMMD(calibration=Permutation(9))


def test_a_word_and_its_object_are_one_program():
    tests = [ntk.NTKMMD(network=ntk.mlp(4), calibration=given) for given in ("full", Full())]
    tests = [dataclasses.replace(test, network=tests[0].network) for test in tests]
    assert jax.tree.structure(tests[0]) == jax.tree.structure(tests[1])
