"""What griffe cannot know of this package: records are dataclasses, and fields have comments.

A class under `@record` has the signature of a dataclass, and `static(…)` is a field of it. The
comments of fields, on their line or on the lines right above, become the section `Attributes:` of
the class, unless it has one. A docstring's `Example:` is a doctest, which griffe calls `Examples:`.
"""

import re

import griffe

TRAILING = re.compile(r"#\s?(.*)$")
EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)


class Records(griffe.Extension):
    """Comments of fields as attributes; `@record` as `@dataclass`; examples as doctests."""

    def on_instance(self, *, obj: griffe.Object, **_) -> None:
        """Examples."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub("Examples:", obj.docstring.value)

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_) -> None:
        """What `static` means."""
        if isinstance(attr.value, griffe.ExprCall) and str(attr.value.function) == "static":
            attr.value.function = griffe.ExprName("dataclasses.field")

    def on_class_members(self, *, cls: griffe.Class, **_) -> None:
        """Label records before griffe's own extension looks for dataclasses; list their fields."""
        made_by = {str(one.value).partition("(")[0] for one in cls.decorators}
        if "record" in made_by:
            value = griffe.ExprName("dataclasses.dataclass")
            cls.decorators.append(griffe.Decorator(value, lineno=cls.lineno, endlineno=cls.lineno))
        if made_by & {"record", "dataclasses.dataclass"}:
            _list_fields(cls)


def _list_fields(cls: griffe.Class) -> None:
    if cls.docstring is None or "Attributes:" in cls.docstring.value:
        return
    lines = cls.module.lines_collection[cls.module.filepath]
    said = {
        name: text
        for name, one in cls.members.items()
        if one.is_attribute
        and one.annotation is not None
        and not name.startswith("_")
        and "ClassVar" not in str(one.annotation)
        and "property" not in one.labels
        and (text := _comment(lines, one.lineno, one.endlineno))
    }
    if said:
        listed = "\n".join(f"    {name}: {text}" for name, text in said.items())
        cls.docstring.value += f"\n\nAttributes:\n{listed}"


def _comment(lines: list[str], first: int, last: int) -> str:
    if found := TRAILING.search(lines[last - 1]):
        return _sentence([found[1]])
    said = []
    for line in reversed(lines[: first - 1]):
        if not line.strip().startswith("#"):
            break
        said.insert(0, line.strip().lstrip("# "))
    return _sentence(said)


def _sentence(said: list[str]) -> str:
    """With a capital; a shape of `()` in a word."""
    text = re.sub(r"^\(\)(?=,| |$)", "scalar:", " ".join(said)).removesuffix(":")
    text = text.replace("scalar:,", "scalar,")
    return text[:1].upper() + text[1:]
