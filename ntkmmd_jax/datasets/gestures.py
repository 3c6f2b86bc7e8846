"""MSRC-12 gestures (Fothergill et al. 2012): a person bows, then throws; and a stand-in.

A recording is `NAME.csv`: a line per frame, 30 a second, with the time in µs and 20 joints × (x, y,
z in metres, w) separated by blanks. Frames in which the camera saw nobody are all zeros: the first
ones always, and in some recordings later ones; both are left out.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.normals import normal
from ntkmmd_jax.datasets.folder import find

JOINTS = (
    "hip centre", "spine", "shoulder centre", "head",
    "left shoulder", "left elbow", "left wrist", "left hand",
    "right shoulder", "right elbow", "right wrist", "right hand",
    "left hip", "left knee", "left ankle", "left foot",
    "right hip", "right knee", "right ankle", "right foot",
)  # fmt: skip
LEFT_OUT = ("left foot", "right foot")  # the paper has 18 joints and does not say which
SUBJECTS = ("p04", "p08", "p16")  # whose recordings are known to have enough frames
CHANGE = 550  # index of the first frame of the second gesture
LENGTH = 1192


def msrc12(subject: str = "p04", *, data: str = "msrc12") -> np.ndarray:
    """Bow, then throw, of one subject: 1192 frames of 54 coordinates, with the change at 550.

    The first 550 frames of `P1_2_7_SUBJECT.csv` (bow) and the first 642 of `P1_2_8_SUBJECT.csv`
    (throw), as the paper has it; 18 joints × 3 coordinates in metres, joint by joint, without the
    feet, which move with the ankles and are seen worst.

    Args:
        subject: As in the file names, "p04".
        data: "msrc12", or "synthetic" for `synthetic_gestures` with the subject's number as seed.
    """
    if data == "synthetic":
        seed = int("".join(filter(str.isdigit, subject)) or 0)
        return np.asarray(synthetic_gestures(jax.random.key(seed)))
    if data != "msrc12":
        raise ValueError(f"data must be 'msrc12' or 'synthetic'; got {data!r}")
    bow, throw = (
        read_recording(find([f"P1_2_{gesture}_{subject}.csv"], "msrc12")) for gesture in (7, 8)
    )
    if len(bow) < CHANGE or len(throw) < LENGTH - CHANGE:
        raise ValueError(
            f"the recordings of {subject} have {len(bow)} and {len(throw)} frames with a person; "
            f"{CHANGE} and {LENGTH - CHANGE} are needed"
        )
    return np.concatenate([bow[:CHANGE], throw[: LENGTH - CHANGE]])


def read_recording(path: Path) -> np.ndarray:
    """Frames with a person in a recording, 18 joints × 3 coordinates, shape (n, 54)."""
    try:
        values = np.loadtxt(path, dtype=np.float64, ndmin=2)
    except ValueError as error:
        raise ValueError(f"{path}: not a recording of MSRC-12 ({error})") from error
    if values.shape[1] != 1 + 4 * len(JOINTS):
        raise ValueError(
            f"{path}: a recording has {1 + 4 * len(JOINTS)} columns; got {values.shape[1]}"
        )
    joints = values[:, 1:].reshape(-1, len(JOINTS), 4)[:, :, :3]
    kept = [i for i, name in enumerate(JOINTS) if name not in LEFT_OUT]
    seen = joints.any(axis=(1, 2))
    return joints[seen][:, kept].reshape(seen.sum(), -1).astype(np.float32)


def coordinates() -> list[str]:
    """Names of the 54 coordinates, as "head y"."""
    return [f"{joint} {axis}" for joint in JOINTS if joint not in LEFT_OUT for axis in "xyz"]


def synthetic_gestures(key: jax.Array, *, change: int = CHANGE, length: int = LENGTH) -> jax.Array:
    """A stand-in for those without the recordings: two periodic motions of 18 joints, not real.

    Every coordinate swings about its place with a period of 90 frames before the change and of 60
    after, each motion with amplitudes and phases of its own; speed wanders and sensors are noisy.

    Args:
        key: A JAX key.
        change: First frame of the second motion.
        length: Frames in all.
    """
    k_place, k_size, k_phase, k_speed, k_noise = jax.random.split(key, 5)
    place = 0.5 * normal(k_place, (54,))
    size = 0.08 * jnp.abs(normal(k_size, (2, 54)))
    phase = 2 * jnp.pi * jax.random.uniform(k_phase, (2, 54))
    second = (jnp.arange(length) >= change).astype(int)
    pace = jnp.where(second == 0, 1 / 90, 1 / 60) * jnp.exp(0.3 * normal(k_speed, (length,)))
    angle = 2 * jnp.pi * jnp.cumsum(pace)[:, None] + phase[second]
    return place + size[second] * jnp.sin(angle) + 0.01 * normal(k_noise, (length, 54))
