"""What a test learns beforehand, it learns from other points than those it is held against.

A chart or a pilot prepares a test once, and takes T of many pairs. Where `prepare` learns from its
points, as the filters of `FusedNTK` do, T of these points is not T of new ones: with 300 frames of
reference for both, three of four looks at a chart without any change were above its threshold.
"""

from typing import Any

from ntkmmd_jax.twosample.contract import TwoSampleTest


def taught(test: TwoSampleTest, points: Any) -> tuple[Any, Any]:
    """The points that a test is prepared by, and those that it is held against.

    Returns:
        All of them twice; or the first half and the second, if the test `fits`.
    """
    half = len(points) // 2
    return (points[:half], points[half:]) if test.fits else (points, points)


def beside(learned: int) -> str:
    """What is to be said of points that a test has learned from, after the number of the others."""
    return f" beside {learned} that the test learns from" if learned else ""
