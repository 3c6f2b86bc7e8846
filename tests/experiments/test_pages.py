"""The report: what is said of a record, its tables, and both ways to write it."""

import pytest

from ntkmmd_jax.experiments.blocks import Folded, Heading, Picture, Table, Text, markdown, page
from ntkmmd_jax.experiments.experiment import Number
from ntkmmd_jax.experiments.pages import overview, section
from ntkmmd_jax.power.table import wilson


def rate(label, rejections, runs=500, published=None):
    published_runs = None if published is None else 500
    low, high = wilson(rejections, runs)
    number = Number(label, rejections / runs, low, high, runs, published, published_runs)
    return {**vars(number), "agreement": "of another version"}


def record(numbers, **others):
    entry = {"id": "fig1", "title": "A title", "numbers": numbers, "runs": 500, "paper_runs": 500}
    entry |= {"seed": 3, "seconds": 61.7, "remarks": "", "about": "", "table": None}
    return entry | {"settings": {"d": 2, "n_tr": [1, 2]}, "versions": {"jax": "0"}} | others


def table_of(blocks):
    (table,) = (block for block in blocks if isinstance(block, Table))
    return table.rows


def test_published_numbers_stand_beside_ours_with_both_intervals():
    entry = record([rate("a", 250, published=0.5), rate("b", 250, published=0.7), rate("c", 5)])
    head, same, other = table_of(section(entry))
    assert head == ["", "ours", "published", "verdict"]
    assert same == [
        "a",
        "0.500 [0.456, 0.544]",
        "0.500 [0.456, 0.544]",
        "not distinguishable, ± 0.06",
    ]
    assert other[-1] == "differs"
    (folded,) = (block for block in section(entry) if isinstance(block, Folded))
    assert folded.summary == "1 more number" and folded.blocks[0].rows[1][0] == "c"


def test_nothing_published_is_no_empty_column():
    """And what is no rate has the digits that say something."""
    numbers = [vars(Number("delay in frames", 69.0)), vars(Number("p-value", 0.0025))]
    assert table_of(section(record(numbers))) == [
        ["", "ours"],
        ["delay in frames", "69"],
        ["p-value", "0.0025"],
    ]


def test_fewer_runs_are_told():
    entry = record([rate("a", 250, published=0.5), rate("b", 25, 50, published=0.5)])
    head, *rows = table_of(section(entry))
    assert head[2] == "runs" and [row[2] for row in rows] == ["500", "50"]
    assert overview([entry]).rows[1][2] == "50 to 500 (500)"


def test_a_seeds_range_is_not_called_an_interval_of_a_rate():
    number = Number("order", 1.0, 0.5, 1.5, None, 0.6, None, "95 % of 20 seeds")
    assert table_of(section(record([vars(number)])))[1] == [
        "order",
        "1 [0.5, 1.5]: 95 % of 20 seeds",
        "0.6",
        "not distinguishable, ± 0.50",
    ]


def test_many_numbers_are_a_grid():
    numbers = [
        rate(f"{name}, n = {n}", 100 + n, published=0.25) for name in "abc" for n in range(6)
    ]
    short = next(block for block in section(record(numbers)) if isinstance(block, Table)).rows
    assert short[0] == ["ours (published)", *(f"n = {n}" for n in range(6))]
    assert short[1][1] == "0.200 (0.250)" and len(short) == 4


def test_the_footer_has_what_made_it():
    *_, footer = section(record([rate("a", 250)]))
    assert footer.footer and "seed 3, 62 s" in footer.text and "n_tr = 1, 2" in footer.text


@pytest.mark.parametrize("block", [Text("a `code` and [link](#x)"), Heading("h", "x")])
def test_one_page_two_ways(block, tmp_path):
    (tmp_path / "p.png").write_bytes(b"picture")
    blocks = [Heading("Title"), block, Picture("p", "P"), Folded("more", [Table([["a"], ["b|c"]])])]
    text, html = markdown(blocks), page("Title", blocks, tmp_path)
    assert "# Title" in text and "<summary>more</summary>" in text and "| b\\|c |" in text
    assert "![P](p.png)" in text
    assert "<h1>Title</h1>" in html and "<td>b|c</td>" in html and "cGljdHVyZQ==" in html
    if isinstance(block, Text):
        assert '<a href="#x">link</a>' in html and "<code>code</code>" in html
