"""Records on their way to disk: the leaves of a pytree and a header, whole or not at all."""

import contextlib
import dataclasses
import io
import json
import math
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import jax
import jax.numpy as jnp
import numpy as np


def replace_file(path: str | os.PathLike, write: Any) -> Path:
    """Write a file atomically: readers see the old one or the whole new one, never a part."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {path.parent}; make it first")
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def save_leaves(path: str | os.PathLike, tree: Any, *, kind: str, **header: Any) -> Path:
    """Save the leaves of a pytree, in order, with a JSON header, as one `.npz` file."""
    leaves = [np.asarray(_raw(leaf)) for leaf in jax.tree.leaves(tree)]
    arrays: dict[str, Any] = {f"leaf_{i}": leaf for i, leaf in enumerate(leaves)}
    text = np.frombuffer(json.dumps({"kind": kind, **header}).encode(), np.uint8)
    return replace_file(path, lambda file: np.savez(file, header=text, **arrays))


def load_leaves(path: str | os.PathLike, kind: str) -> tuple[list[np.ndarray], dict]:
    """Read back what `save_leaves` wrote under a kind: the leaves in order, and the header."""
    with open(path, "rb") as file, whole_file(path):
        arrays = _read_arrays(file)
        header = json.loads(arrays.pop("header").tobytes())
        if not isinstance(header, dict):
            raise ValueError("its header is no table of names")
        leaves = [arrays.pop(f"leaf_{i}") for i in range(len(arrays))]
    if (found := header.pop("kind", None)) != kind:
        raise ValueError(f"{path} does not hold a {kind} but a {found}")
    return leaves, header


def plain(value: Any, other: Callable[[Any], Any]) -> Any:
    """A value as JSON can hold it; `other` says what stands for one that it cannot."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [plain(item, other) for item in value]
    if isinstance(value, Mapping):
        return {str(name): plain(item, other) for name, item in value.items()}
    return other(value)


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a record by name."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


class FileError(ValueError):
    """What is wrong with a saved file, in words for its user."""


@contextlib.contextmanager
def whole_file(path: str | os.PathLike) -> Iterator[None]:
    """Turn whatever goes wrong in reading a file into one `ValueError` that names it."""
    try:
        yield
    except FileError:
        raise
    except Exception as error:  # a foreign file may break any step of the way
        reason = f"no {error}" if isinstance(error, KeyError) else str(error) or repr(error)
        raise FileError(
            f"{path} is not a whole file of ours ({reason}): half-written, or of another kind"
        ) from error


def _read_arrays(file: IO[bytes]) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file as `np.savez` writes it; nothing is allocated on its word."""
    arrays, length = {}, file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED or member.file_size > length:
                raise ValueError(f"{member.filename} is compressed, or longer than the file")
            content = io.BytesIO(archive.read(member))
            version = np.lib.format.read_magic(content)
            read = {(1, 0): np.lib.format.read_array_header_1_0}
            read |= {(2, 0): np.lib.format.read_array_header_2_0}
            shape, _, dtype = read[version](content)
            claimed, there = math.prod(shape) * dtype.itemsize, len(content.getvalue())
            if dtype.kind not in "biuf" or content.tell() + claimed != there:
                raise ValueError(f"{member.filename} claims {dtype} numbers of shape {shape}")
            content.seek(0)
            arrays[member.filename.removesuffix(".npy")] = np.load(content, allow_pickle=False)
    return arrays


def refill(like: Any, leaves: list[np.ndarray], *, source: str) -> Any:
    """Put leaves into a tree of the structure and shapes of `like`; refuse any other."""
    expected, structure = jax.tree.flatten(like)
    raw = [jax.eval_shape(_raw, leaf) for leaf in expected]
    shapes, found = [leaf.shape for leaf in raw], [leaf.shape for leaf in leaves]
    if shapes != found:
        raise FileError(f"{source} holds arrays of shapes {found}; expected {shapes}")
    kinds, given = ([leaf.dtype.kind for leaf in many] for many in (raw, leaves))
    if kinds != given:
        raise FileError(f"{source} holds numbers of kinds {given}; expected {kinds}")
    filled = [
        jax.random.wrap_key_data(jnp.asarray(leaf)) if _is_key(old) else jnp.asarray(leaf)
        for old, leaf in zip(expected, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, filled)


def _is_key(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _raw(leaf: Any) -> Any:
    """A leaf as plain numbers: the words of a random key."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf
