"""What griffe cannot know of this package: records are dataclasses, and fields have comments.

A class under `@record` has the signature of a dataclass; a field's comment, on its line or on
the lines right above it, is what the reference says of it.
"""

import ast
import re

import griffe

TRAILING = re.compile(r"#\s?(.*)$")


class Records(griffe.Extension):
    """Comments of fields as their docstrings; `@record` as `@dataclass`."""

    def on_class_instance(self, *, node, cls: griffe.Class, **_) -> None:
        """Label records before griffe's own extension looks for dataclasses."""
        if any(str(one.value) == "record" for one in cls.decorators):
            value = griffe.ExprName("dataclasses.dataclass")
            cls.decorators.append(griffe.Decorator(value, lineno=cls.lineno, endlineno=cls.lineno))

    def on_attribute_instance(self, *, node, attr: griffe.Attribute, **_) -> None:
        """The comment of a field of a class."""
        if attr.docstring is None and isinstance(node, ast.AnnAssign) and attr.parent.is_class:
            lines = attr.parent.module.lines_collection[attr.parent.module.filepath]
            if text := _comment(lines, node.lineno, node.end_lineno):
                attr.docstring = griffe.Docstring(text, lineno=node.lineno, parent=attr)


class _Dataclasses:
    """Enough of a scope for griffe to resolve the name."""

    def resolve(self, name: str) -> str:
        return f"dataclasses.{name}"


def _comment(lines: list[str], first: int, last: int) -> str:
    if found := TRAILING.search(lines[last - 1]):
        said = [found[1]]
        for line in lines[last:]:  # a comment that goes on below, at the right
            if not re.match(r"\s{12,}#", line):
                break
            said.append(line.strip().lstrip("# "))
    else:
        said = []
        for line in reversed(lines[: first - 1]):
            if not line.strip().startswith("#"):
                break
            said.insert(0, line.strip().lstrip("# "))
    text = " ".join(said)
    return text[:1].upper() + text[1:] + ("" if not text or text.endswith(".") else ".")
