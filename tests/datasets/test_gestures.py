"""MSRC-12 recordings: the real ones where they are, made-up files for the format, the stand-in."""

import os
from pathlib import Path

import jax
import numpy as np
import pytest

from ntkmmd_jax import changepoint, datasets
from ntkmmd_jax.datasets import gestures

REAL = Path(os.environ.get("NTKMMD_DATA", "../shared/data")).resolve()
needs_data = pytest.mark.skipif(
    not (REAL / "msrc12").is_dir(), reason="no MSRC-12 recordings: NTKMMD_DATA names no folder"
)


def recording(frames, leading=3, lost=()):
    """Lines of a recording: joint j of frame i is at (i, j, i + j)."""
    lines = []
    for i in range(-leading, frames):
        gone = i < 0 or i in lost
        cells = [(0, 0, 0, 0) if gone else (i + 1, j, i + j, 1) for j in range(20)]
        lines.append(" ".join(map(str, [33000 * (i + leading), *np.ravel(cells)])))
    return "\n".join(lines)


def test_frames_joints_and_the_change(folder):
    (folder / "P1_2_7_p99.csv").write_text(recording(560, lost=(5,)))
    (folder / "P1_2_8_p99.csv").write_text(recording(700, leading=20))
    series = datasets.msrc12("p99")
    assert series.shape == (1192, 54) and series.dtype == np.float32
    assert series[5, 0] == 7  # frame 5 was lost: the seventh takes its place
    assert series[549, 0] == 551 and series[550, 0] == 1  # bow, then throw from its start
    kept = series[0].reshape(18, 3)[:, 1]
    assert kept.tolist() == [j for j in range(20) if j not in (15, 19)]  # without the feet
    names = gestures.coordinates()
    assert len(names) == 54 and names[:3] == ["hip centre x", "hip centre y", "hip centre z"]
    assert not any("foot" in name for name in names)


def test_bad_recordings(folder):
    with pytest.raises(FileNotFoundError, match=r"P1_2_7_p99.csv is in none of"):
        datasets.msrc12("p99")
    (folder / "P1_2_8_p99.csv").write_text(recording(700))
    (folder / "P1_2_7_p99.csv").write_text(recording(100))
    with pytest.raises(ValueError, match="100 and 700 frames"):
        datasets.msrc12("p99")
    (folder / "P1_2_7_p99.csv").write_text("1 2 3\n4 5 6\n")
    with pytest.raises(ValueError, match="81 columns; got 3"):
        datasets.msrc12("p99")
    (folder / "P1_2_7_p99.csv").write_text("<html>")
    with pytest.raises(ValueError, match="not a recording"):
        datasets.msrc12("p99")
    with pytest.raises(ValueError, match="'msrc12' or 'synthetic'"):
        datasets.msrc12("p99", data="kinect")


def test_the_stand_in_changes_where_it_says():
    series = datasets.msrc12("p04", data="synthetic")
    assert series.shape == (1192, 54) and np.isfinite(series).all()
    again = datasets.synthetic_gestures(jax.random.key(4))
    assert np.array_equal(series, again)
    found = changepoint.scan(0, series, reference=300, window=100, test="gmmd", threshold=0.3)
    assert 550 <= found.first_alarm < 650


@needs_data
@pytest.mark.parametrize("subject", gestures.SUBJECTS)
def test_recordings_low_before_and_high_after(subject, monkeypatch):
    """The paper's claim, for the exact statistic and every window."""
    monkeypatch.setenv("NTKMMD_DATA", str(REAL))
    series = datasets.msrc12(subject)
    assert series.shape == (1192, 54)
    windows = (100, 150, 200)
    found = changepoint.scan(0, series, reference=300, window=windows, test="ntk", threshold=1.0)
    for one in found:
        times, values = np.asarray(one.times), np.asarray(one.statistics)
        assert values[times >= 550 + one.window].min() > 10 * values[times < 550].max()
