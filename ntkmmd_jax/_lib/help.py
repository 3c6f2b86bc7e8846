"""Help that is complete: every field of a dataclass, explained where it was written down.

A docstring explains fields in its `Args:` or `Attributes:`. What it leaves out is looked up, when
somebody asks: in the help of the base that the field comes from, or in the comment behind it. So
options that all tests share are explained once, and `help` of each test has them all.
"""

import dataclasses
import functools
import inspect
import re
import textwrap
from typing import Any, TypeVar

_SECTION = re.compile(r"^(Args|Attributes):\n(?P<entries>(?:(?: {4}.*)?(?:\n|\Z))*)", re.MULTILINE)
_ENTRY = re.compile(r"^ {4}\*{0,2}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
_COMMENT = re.compile(r"^    (\w+):.*?  # (.*)$", re.MULTILINE)
T = TypeVar("T")
_WIDTH = 96  # of a line of help


class Help:
    """The docstring of a dataclass, completed when it is read."""

    def __init__(self, cls: type, written: str) -> None:
        self.cls, self.written = cls, inspect.cleandoc(written)

    def __get__(self, instance: Any, owner: type | None = None) -> str:
        return self.text

    @functools.cached_property
    def text(self) -> str:
        """All of it."""
        known = explained(self.written)
        names = [f.name for f in dataclasses.fields(self.cls) if f.init and f.name not in known]
        missing = {name: said for name in names if (said := self._said(name))}
        if not missing:
            return self.written
        listed = "\n".join(map(_entry, missing.items()))
        if (section := _SECTION.search(self.written)) is None:
            return _before_example(self.written, f"Attributes:\n{listed}\n")
        head = self.written[: section.end()].rstrip("\n")
        return f"{head}\n{listed}\n\n{self.written[section.end() :]}".rstrip("\n")

    def _said(self, name: str) -> str:
        """What a base, or the comment behind the field, says of it."""
        for cls in self.cls.__mro__:
            if name in vars(cls).get("__annotations__", ()):
                return _comments(cls).get(name, "") if cls is self.cls else _of_base(cls, name)
        return ""


def with_help(cls: type[T]) -> type[T]:
    """Complete the docstring of a dataclass."""
    cls.__doc__ = Help(cls, cls.__doc__ or "")  # pyright: ignore[reportAttributeAccessIssue]
    return cls


def explained(doc: str) -> dict[str, str]:
    """What a docstring says of parameters, by name."""
    section = _SECTION.search(doc)
    entries = _ENTRY.findall(section["entries"]) if section else []
    return {name: " ".join(said.split()) for name, said in entries}


def _of_base(cls: type, name: str) -> str:
    return explained(inspect.cleandoc(cls.__doc__ or "")).get(name, "")


def _comments(cls: type) -> dict[str, str]:
    """The comments behind the fields of a class, as sentences."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # made by hand
        return {}
    return {name: said[:1].upper() + said[1:] + "." for name, said in _COMMENT.findall(source)}


def _entry(item: tuple[str, str]) -> str:
    name, said = item
    text = f"{name}: {said}"
    return textwrap.fill(text, _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8)


def _before_example(doc: str, section: str) -> str:
    head, example, rest = doc.partition("\nExample:\n")
    return f"{head.rstrip()}\n\n{section}{example}{rest}".rstrip("\n")
