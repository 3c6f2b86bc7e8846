"""Formulas as MathML, made when the site is built: a browser shows them by itself.

`\\(…\\)` and `\\[…\\]`, as the extension arithmatex leaves them, become `<math>`: no script, no
font and no network where the page is read.
"""

import html
import re

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(text: str, **_) -> str:
    """Every formula of a page."""
    return FORMULA.sub(_mathml, text)


def _mathml(found: re.Match) -> str:
    kind, tex = found.groups()
    display = "block" if kind == "div" else "inline"
    math = convert(html.unescape(tex), display=display)
    return f'<div class="formula">{math}</div>' if kind == "div" else math
