"""One test as one HTML file: verdict, numbers, pictures, explanation, and how it was made.

The file stands by itself: pictures are within it, nothing is fetched, no script runs, and whatever
comes from the user (names of columns and files) is text.
"""

import base64
import html
import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ntkmmd_jax._lib.files import replace_file
from ntkmmd_jax._lib.versions import versions

if TYPE_CHECKING:
    from ntkmmd_jax.twosample.explained import Explanation, Extremes
    from ntkmmd_jax.twosample.result import TwoSampleResult

_COORDINATES = 20  # in the table
_COLUMNS = 6  # coordinates of the extreme samples
_STYLE = """
:root{color-scheme:light}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem;color:#1a1a1a;
background:#fff;overflow-wrap:break-word}
h1{font-size:1.5rem;margin:.5rem 0}h2{font-size:1.15rem;margin:2rem 0 .5rem}
.verdict{border-left:.4rem solid #999;background:#f4f4f4;padding:.8rem 1rem;font-size:1.1rem}
.reject{border-color:#d55e00}
.wide{overflow-x:auto;white-space:nowrap}
.wide td:first-child{white-space:normal;min-width:8rem}
.pictures{display:flex;flex-wrap:wrap;gap:.5rem;margin:1rem 0}
.pictures img{flex:0 1 29rem;min-width:0;max-width:100%;height:auto}
.pairs td:first-child{white-space:nowrap}
.pairs td:last-child{overflow-wrap:anywhere}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:.2rem .9rem .2rem 0;text-align:left;vertical-align:top;border-bottom:1px solid #ddd}
.small{color:#555;font-size:.9rem}
"""


def write_report(
    result: "TwoSampleResult",
    path: str | os.PathLike,
    explanation: "Explanation | None",
    settings: Mapping[str, Any],
) -> Path:
    """Write the report of a result; see `TwoSampleResult.report`."""
    page = report_page(result, explanation, settings)
    return replace_file(path, lambda file: file.write(page.encode()))


def report_page(
    result: "TwoSampleResult", explanation: "Explanation | None", settings: Mapping[str, Any]
) -> str:
    """The report as text."""
    from ntkmmd_jax import plotting

    title = f"Two-sample test: {result.method}"
    parts = [
        f"<h1>{_text(title)}</h1>",
        f'<p class="verdict{" reject" * bool(result.reject)}">{_text(verdict(result))}</p>',
        _table(None, _numbers(result)),
        _pictures({"Null, threshold and statistic": plotting.result(result, ax=plotting.axes())}),
    ]
    if result.members is not None:
        wide = plotting.axes(plotting.figure(6, 3.4).subplots())
        drawn = {"Members of the test": plotting.members(result.members, ax=wide)}
        parts += ["<h2>Which members of the test spoke</h2>", _members(result), _pictures(drawn)]
    if explanation is not None:
        parts += _explained(explanation)
    parts += ["<h2>Data</h2>", _table(None, _data(result, explanation))]
    made = {**settings, "level": f"{float(result.level):g}", "standardized": result.standardized}
    made |= versions()
    parts += ["<h2>How it was made</h2>", _table(None, [[k, v] for k, v in made.items()])]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>"
        f"{''.join(parts)}</body></html>\n"
    )


def verdict(result: "TwoSampleResult") -> str:
    """The verdict in a sentence."""
    sizes = f"{result.n_x} and {result.n_y} points"
    at = f"p = {float(result.pvalue):.3g}, level {float(result.level):g}, {sizes}"
    if result.reject:
        return f"The two samples come from different distributions ({at})."
    if result.pvalue > result.level:
        return f"No evidence that the two samples come from different distributions ({at})."
    return f"No verdict: the statistic is not a number ({sizes})."


def _numbers(result: "TwoSampleResult") -> list[list[str]]:
    count = len(result.null)
    source = f"{count} permutations of the labels" if count else "a law, without permutations"
    if result.wealth is not None:
        source = "wealth of a bet, valid at any time"
    return [
        ["statistic", f"{float(result.statistic):.5g}"],
        ["threshold", f"{float(result.threshold):.5g}"],
        ["p-value", f"{float(result.pvalue):.4g}"],
        ["null by", source],
    ]


def _members(result: "TwoSampleResult") -> str:
    assert result.members is not None
    rows = [
        [r["member"], f"{r['statistic']:.3g}", f"{r['zscore']:.2f}", f"{r['pvalue']:.4f}"]
        for r in result.members.rows()
    ]
    return _table(["member", "statistic", "z-score", "p-value, alone"], rows)


def _explained(found: "Explanation") -> list[str]:
    from ntkmmd_jax import plotting

    drawn = {
        "Coordinates that differ": plotting.coordinates(found),
        "A map of the witness": plotting.witness_map(found),
    }
    if found.is_image:
        drawn["The most x-like and the most y-like samples"] = plotting.extremes(found)
    rows = found.coordinates
    table = [
        [
            row["name"],
            f"{row['statistic']:.2f}",
            f"{row['pvalue']:.4f}",
            f"{row['share']:.1%}",
            row["difference"] if row["pvalue"] <= found.level else "",
        ]
        for row in rows[:_COORDINATES]
    ]
    head = ["coordinate", "statistic", "p-value", "share", "difference"]
    more = f" The table has the first {_COORDINATES} of {len(rows)}." if rows[_COORDINATES:] else ""
    note = (
        "Statistic: in standard deviations over relabellings, of whichever differs most: level, "
        f"spread, shape, dependence on others. p-value: over {found.n_permutations} relabellings, "
        "adjusted for looking at all coordinates. Share: of the gap of the test's own witness "
        f"between x and y, a description without a null.{more}"
    )
    return [
        "<h2>Why</h2>",
        f"<p>{_text(found.summary)}</p>",
        _pictures(drawn),
        _table(head, table),
        f'<p class="small">{_text(note)}</p>',
        *(part for side in "xy" for part in _extremes(found, side)),
    ]


def _extremes(found: "Explanation", side: str) -> list[str]:
    one: Extremes = found.most_x if side == "x" else found.most_y
    if found.is_image:  # they are drawn
        return []
    columns = found.order[:_COLUMNS]
    rows = [
        [f"{row}", f"{g:.3g}", *(f"{value:.4g}" for value in point[columns])]
        for row, g, point in zip(one.rows, one.witness, one.points, strict=True)
    ]
    head = [f"row of {side}, from 0", "witness", *(found.names[i] for i in columns)]
    return [f"<h2>The most {side}-like samples</h2>", _table(head, rows)]


def _data(result: "TwoSampleResult", found: "Explanation | None") -> list[list[str]]:
    rows = [["points of x", f"{result.n_x:,}"], ["points of y", f"{result.n_y:,}"]]
    if found is not None:
        rows.append(["shape of a point", " × ".join(map(str, found.shape))])
    names = result.names or ()
    if names:
        more = f", … {len(names)} in all" if len(names) > 50 else ""
        rows.append(["columns", ", ".join(names[:50]) + more])
    return rows


def _table(head: list[str] | None, rows: Iterable[Iterable[Any]]) -> str:
    """Cells under a head, which scroll where the page is narrow; or pairs of name and value."""
    lines = "".join(_row("td", row) for row in rows)
    if head is None:
        return f'<table class="pairs">{lines}</table>'
    return f'<div class="wide"><table>{_row("th", head)}{lines}</table></div>'


def _row(tag: str, cells: Iterable[Any]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"


def _pictures(drawn: Mapping[str, Any]) -> str:
    """Axes side by side, or below each other where the page is narrow; by what they show."""
    images = [f'<img alt="{_text(alt)}" src="{_embedded(ax.figure)}">' for alt, ax in drawn.items()]
    return f'<div class="pictures">{"".join(images)}</div>'


def _embedded(figure: Any) -> str:
    from ntkmmd_jax import plotting

    file = io.BytesIO()
    plotting.save(figure, file)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _text(value: Any) -> str:
    return html.escape(str(value))
