"""A page as a list of blocks, written as Markdown or as HTML: what it says is decided once.

Texts are plain but for `code`, *stress* and [links](#anchor), the same in both.
"""

import base64
import dataclasses
import html
import re
from collections.abc import Sequence
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Heading:
    """Of a page (level 1) or of an entry (level 2), with an anchor."""

    text: str
    anchor: str = ""


@dataclasses.dataclass(frozen=True)
class Text:
    """Paragraphs; a footer is small."""

    text: str
    footer: bool = False


@dataclasses.dataclass(frozen=True)
class Picture:
    """ID.png of the folder."""

    name: str
    caption: str


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of cells, the head first."""

    rows: Sequence[Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Folded:
    """What is there for those who ask."""

    summary: str
    blocks: Sequence["Block"]


Block = Heading | Text | Picture | Table | Folded


def markdown(blocks: Sequence[Block]) -> str:
    """All blocks, an empty line between them."""
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, ""):
            return f"# {text}"
        case Heading(text, anchor):
            return f'<a id="{anchor}"></a>\n\n## {text}'
        case Text(text, footer):
            return f"<small>{text}</small>" if footer else text
        case Picture(name, caption):
            return f"![{caption}]({name}.png)"
        case Table(rows):
            head, *rest = [[cell.replace("|", "\\|") for cell in row] for row in rows]
            lines = [head, ["---"] * len(head), *rest]
            return "\n".join(f"| {' | '.join(line)} |" for line in lines)
        case Folded(summary, inside):
            opening = f'<details markdown="1">\n<summary>{summary}</summary>'
            return f"{opening}\n\n{markdown(inside)}\n</details>"


STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 68em; margin: 2.5em auto; padding: 0 1em }
h2 { margin-top: 3em; padding-top: .6em; border-top: 1px solid #8886 }
img { max-width: 100%; background: #fff; border-radius: 4px }
.wide { overflow-x: auto; margin: 1em 0 }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums }
th, td { padding: .25em .9em .25em 0; text-align: left; vertical-align: top }
th { border-bottom: 1.5px solid #888; font-weight: 600 }
td { border-bottom: 1px solid #8883 }
details { margin: .8em 0 } summary { cursor: pointer; color: #0072B2 }
code { font-size: .92em; background: #8882; padding: .1em .3em; border-radius: 3px }
a { color: #0072B2 } .footer { font-size: 13px; opacity: .75 } .differs { color: #D55E00 }
"""


def page(title: str, blocks: Sequence[Block], folder: Path) -> str:
    """The same as one HTML file, pictures in it."""
    head = f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title>"
    head += "<meta name=viewport content='width=device-width, initial-scale=1'>"
    return f"{head}<style>{STYLE}</style>\n" + "\n".join(_html(block, folder) for block in blocks)


def _html(block: Block, folder: Path) -> str:
    match block:
        case Heading(text, ""):
            return f"<h1>{_inline(text)}</h1>"
        case Heading(text, anchor):
            return f'<h2 id="{anchor}">{_inline(text)}</h2>'
        case Text(text, footer):
            kind = " class=footer" if footer else ""
            return "\n".join(f"<p{kind}>{_inline(part)}</p>" for part in text.split("\n\n"))
        case Picture(name, caption):
            picture = base64.b64encode((folder / f"{name}.png").read_bytes()).decode()
            return f'<img src="data:image/png;base64,{picture}" alt="{html.escape(caption)}">'
        case Table((head, *rows)):
            lines = [f"<tr>{''.join(f'<th>{_inline(cell)}</th>' for cell in head)}</tr>"]
            lines += [f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows]
            return f"<div class=wide><table>{''.join(lines)}</table></div>"
        case Folded(summary, inside):
            body = "\n".join(_html(one, folder) for one in inside)
            return f"<details><summary>{_inline(summary)}</summary>{body}</details>"
    raise TypeError(f"no block of a page: {block!r}")


def _cell(text: str) -> str:
    kind = " class=differs" if text.startswith("differs") or text.endswith("≠") else ""
    return f"<td{kind}>{_inline(text)}</td>"


def _inline(text: str) -> str:
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))
    text = re.sub(r"\*(\w[^*]*\w)\*", r"<em>\1</em>", text)
    return re.sub(r"\[([^\]]+)\]\((#[^)]+)\)", r'<a href="\2">\1</a>', text)
