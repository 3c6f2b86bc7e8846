"""Found changes against known ones: precision, recall, F1, covering; alarms: delays.

A found change is right if a known one lies within the margin, and one found is right for one known
only: pairs are as many as can be. With TP of them,

    precision = TP / found,   recall = TP / known,   F1 = 2 TP / (found + known),

each 1 where there is nothing to be counted. *Covering* (Arbeláez et al. 2010; van den Burg &
Williams 2020) needs no margin: how well found segments B cover the known ones A,

    covering = Σ_A |A|/n · max_B |A ∩ B| / |A ∪ B|.
"""

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.help import with_help


@with_help
@dataclasses.dataclass(frozen=True)
class Score:
    """How well found changes agree with known ones."""

    precision: float  # the share of found changes that are right
    recall: float  # the share of known changes that are found
    f1: float  # the harmonic mean of both
    covering: float | None  # None if the length of the series is not known
    pairs: tuple[tuple[int, int], ...]  # found and known, within the margin of each other
    found: int  # how many
    known: int  # likewise
    margin: int  # in frames

    @property
    def errors(self) -> list[int]:
        """Found − known of every pair, in frames."""
        return [found - known for found, known in self.pairs]


@with_help
@dataclasses.dataclass(frozen=True)
class AlarmScore:
    """What the alarms of a chart were worth."""

    delays: tuple[int | None, ...]  # of every known change, that of its first alarm; None if missed
    false_alarms: int  # those before the first change, or while none was fresh

    @property
    def missed(self) -> int:
        """Changes without an alarm."""
        return sum(delay is None for delay in self.delays)


def score(found: Any, true: Iterable[int], *, margin: int = 5, n: int | None = None) -> Score:
    """Hold found changes against the true ones.

    Args:
        found: First frames of the found segments, or what `segment` has found.
        true: First frames of the true segments, without the very first.
        margin: Frames that a found change may be off.
        n: Frames of the series, for the covering; a `Segmentation` knows it.

    Example:
        >>> score([98, 150], [100, 200], margin=5, n=300).f1
        0.5
    """
    whole("margin", margin, 0)
    n = getattr(found, "n", n)
    of_found = _changes(getattr(found, "changes", found), "found changes", n)
    of_true = _changes(true, "true changes", n)
    pairs = _pairs(of_found, of_true, margin)
    precision = len(pairs) / len(of_found) if of_found else 1.0
    recall = len(pairs) / len(of_true) if of_true else 1.0
    both = len(of_found) + len(of_true)
    f1 = 2 * len(pairs) / both if both else 1.0
    covered = None if n is None else _covering(of_found, of_true, n)
    about = {"found": len(of_found), "known": len(of_true), "margin": margin}
    return Score(precision, recall, f1, covered, tuple(pairs), **about)


def score_alarms(alarms: Any, true: Iterable[int], *, within: int | None = None) -> AlarmScore:
    """Hold the alarms of a chart against the true changes.

    An alarm belongs to the last change at or before it. The first one gives its delay, in frames
    seen since the change, its own included: 1 at the very frame of the change. Later ones of the
    same change are no news; one before any change, or that comes too late, is false.

    Args:
        alarms: Frames at which alarms were raised.
        true: First frames after the true changes.
        within: Frames after a change in which an alarm counts for it; all, if not given.
    """
    if within is not None:
        whole("within", within)
    times, changes = _changes(alarms, "alarms", None, 0), _changes(true, "true changes", None)
    delays: list[int | None] = [None] * len(changes)
    false = 0
    for time in times:
        last = int(np.searchsorted(changes, time, side="right")) - 1
        delay = time - changes[last] + 1 if last >= 0 else 0
        if last < 0 or (within is not None and delay > within):
            false += 1
        elif delays[last] is None:
            delays[last] = delay
    return AlarmScore(tuple(delays), false)


def _changes(given: Any, name: str, n: int | None, first: int = 1) -> list[int]:
    """Whole frames in order; refuse any that cannot be, or that come twice."""
    values = np.asarray(given if isinstance(given, np.ndarray) else list(given)).ravel()
    if values.size and not np.array_equal(values, np.round(values)):
        raise ValueError(f"{name} are whole frames; got {values.tolist()}")
    found = sorted(int(value) for value in values)
    if len(set(found)) < len(found):
        raise ValueError(f"{name}: some come twice: {found}")
    if found and (found[0] < first or (n is not None and found[-1] >= n)):
        raise ValueError(f"{name} lie from {first} to before {n or 'the end'}; got {found}")
    return found


def _pairs(found: list[int], true: list[int], margin: int) -> list[tuple[int, int]]:
    """Pairs within the margin, as many as can be: both in order, the earliest that fits."""
    pairs, i, j = [], 0, 0
    while i < len(found) and j < len(true):
        if abs(found[i] - true[j]) <= margin:
            pairs.append((found[i], true[j]))
            i, j = i + 1, j + 1
        elif found[i] < true[j]:
            i += 1
        else:
            j += 1
    return pairs


def _covering(found: list[int], true: list[int], n: int) -> float:
    ours, theirs = (np.asarray([0, *changes, n]) for changes in (found, true))
    low, high = ours[:-1], ours[1:]
    total = 0.0
    for first, last in itertools.pairwise(theirs):
        shared = np.maximum(np.minimum(high, last) - np.maximum(low, first), 0)
        union = (high - low) + (last - first) - shared
        total += (last - first) / n * np.max(shared / union)
    return float(total)
