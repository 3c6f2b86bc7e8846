"""What griffe cannot know of this package: records are dataclasses, whose help completes itself.

A class under `@record` has the signature of a dataclass, and `static(…)` is a field of it. Its
docstring is the one that Python has (`_lib/help.py`): fields that it does not explain are explained
by its bases, or by their comments. `Example:` is a doctest, which griffe calls `Examples:`.
"""

import importlib
import inspect
import operator
import re

import griffe

EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)


class Records(griffe.Extension):
    """Help as Python has it; `@record` as `@dataclass`; examples as doctests."""

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
    """What `help` says of the class: all of its fields, explained."""
    if cls.docstring is None:
        return
    module = importlib.import_module(cls.module.path)
    own = cls.path.removeprefix(f"{cls.module.path}.")
    said = inspect.getdoc(operator.attrgetter(own)(module)) or ""
    cls.docstring.value = EXAMPLE.sub("Examples:", said)
