"""What griffe cannot know of this package: records are dataclasses, and fields have comments.

A class under `@record` has the signature of a dataclass, and `static(…)` is a field of it; a
field's comment, on its line or on the lines right above it, is what the reference says of it. A
docstring's `Example:` holds a doctest, which griffe knows as `Examples:`.
"""

import ast
import re

import griffe

TRAILING = re.compile(r"#\s?(.*)$")
EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)


class Records(griffe.Extension):
    """Comments of fields as their docstrings; `@record` as `@dataclass`; examples as doctests."""

    def on_instance(self, *, obj: griffe.Object, **_) -> None:
        """Examples."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub("Examples:", obj.docstring.value)

    def on_class_instance(self, *, node, cls: griffe.Class, **_) -> None:
        """Label records before griffe's own extension looks for dataclasses."""
        if any(str(one.value) == "record" for one in cls.decorators):
            value = griffe.ExprName("dataclasses.dataclass")
            cls.decorators.append(griffe.Decorator(value, lineno=cls.lineno, endlineno=cls.lineno))

    def on_attribute_instance(self, *, node, attr: griffe.Attribute, **_) -> None:
        """The comment of a field of a class, and what `static` means."""
        if isinstance(attr.value, griffe.ExprCall) and str(attr.value.function) == "static":
            attr.value.function = griffe.ExprName("dataclasses.field")
        if attr.docstring is None and isinstance(node, ast.AnnAssign) and attr.parent.is_class:
            lines = attr.parent.module.lines_collection[attr.parent.module.filepath]
            if text := _comment(lines, node.lineno, node.end_lineno):
                attr.docstring = griffe.Docstring(text, lineno=node.lineno, parent=attr)


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
