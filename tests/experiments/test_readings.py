"""Readings are chosen on some replicas, and confirmed on others."""

from ntkmmd_jax.experiments import readings
from ntkmmd_jax.experiments.experiment import Context, Number

HELD, NOT_HELD = "Glorot, readout frozen", "NTK scaling, all trained"


def number(name, table, at, what=""):
    """A power as published, or far from it."""
    across, known, runs = readings.TABLES[table]
    ours = known[at] if name == HELD else 0.5 * known[at]
    label = f"{name}{what}, table {table}: {across} = {at}"
    return Number(label, ours, ours - 0.02, ours + 0.02, 2000, known[at], runs)


def test_close_readings_are_run_again_on_other_data(tmp_path, monkeypatch):
    asked = []

    def power(context, table, at, name, what=""):
        asked.append((name, table, what, context.seed, context.n_runs))
        return number(name, table, at, what)

    monkeypatch.setattr(readings, "power", power)
    outcome = readings.run(Context("readings", 50, tmp_path, seed=3))
    first = [one for one in asked if not one[2]]
    again = [one for one in asked if one[2]]
    assert {one[0] for one in first} == set(readings.READINGS)
    assert {one[3:] for one in first} == {(3, 50)} and {one[1] for one in first} == {"A1", "2"}
    assert {one[0] for one in again} == {HELD}
    assert {one[3:] for one in again if one[1] != "1"} == {(4, 200)}
    assert len([one for one in again if one[1] == "1"]) == 4
    assert f"{HELD!r}: 0 of 11, at most 0.000 apart" in outcome.remarks
    assert NOT_HELD not in outcome.remarks


def test_closest_readings_differ_at_the_fewest_points():
    numbers = [number(name, "A1", m) for name in (NOT_HELD, HELD) for m in readings.WIDTHS]
    assert readings.closest(numbers) == ([HELD], 0)
    assert readings.closest(numbers[:3]) == ([NOT_HELD], 3)
