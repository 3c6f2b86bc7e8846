"""The site builds without a warning, has every public name, and runs: blocks and commands."""

import importlib
import os
import re
import runpy
import shlex
import subprocess
import sys
import zlib
from pathlib import Path
from types import ModuleType

import pytest
from typer.main import get_command

import ntkmmd_jax as ntk
from ntkmmd_jax.cli.app import app

ROOT = Path(__file__).parent.parent
STRANGER = runpy.run_path(str(ROOT / ".ci" / "stranger"))
MARKDOWN = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What the stranger follows by the wheel (test_packaging) need not run twice.
RUNNING = [
    page
    for page in (str(path.relative_to(ROOT)) for path in MARKDOWN)
    if STRANGER["blocks"](page) and page not in STRANGER["PAGES"]
]
ROOMS = ["networks", "training", "kernels", "theory", "sequential", "twosample", "datasets"]
ROOMS += ["power", "changepoint", "experiments"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `mkdocs build --strict` builds it: broken links are errors."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": paths}
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=env)
    assert run.returncode == 0, run.stdout + run.stderr
    return folder


def documented(site):
    """All names of the reference: `objects.inv` is four lines of text, then zlib."""
    *_, packed = (site / "objects.inv").read_bytes().split(b"\n", 4)
    return {line.split()[0] for line in zlib.decompress(packed).decode().splitlines()}


def public():
    """Every name in an `__all__`, with the paths that it may be documented under."""
    for module in [ntk, *(importlib.import_module(f"ntkmmd_jax.{room}") for room in ROOMS)]:
        for name in module.__all__:
            found = getattr(module, name)
            home, own = getattr(found, "__module__", None), getattr(found, "__qualname__", name)
            if not isinstance(found, ModuleType):
                yield f"{module.__name__}.{name}", {f"{module.__name__}.{name}", f"{home}.{own}"}


def test_every_public_name_is_in_the_reference(site):
    known = documented(site)
    missing = {name for name, paths in public() if not paths & known}
    assert not missing, f"add them to docs/reference: {sorted(missing)}"


def test_modules_that_are_names_have_theirs(site):
    known = documented(site)
    for module in (ntk.binned, ntk.streaming, ntk.changepoint, ntk.sequential):
        for name in ("init", "step", "load"):
            assert f"{getattr(module, name).__module__}.{name}" in known


def test_pages_fetch_nothing(site):
    """Scripts, styles and pictures are the site's own: it can be read without a network."""
    fetched = re.compile(r"<(script|img|iframe|link)\b[^>]*\b(src|href)=[\"']?(https?:)?//[^>]*>")
    for page in site.rglob("*.html"):
        assert not (found := fetched.search(page.read_text(encoding="utf-8"))), f"{page}: {found}"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", style.read_text(encoding="utf-8")), style


def test_formulas_and_numbers_are_put_in(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert 'class="arithmatex"' not in text, page
        assert "{{ " not in text, page
    assert "<math" in (site / "maths" / "nouns.html").read_text(encoding="utf-8")
    board = (site / "benchmarks" / "leaderboard.html").read_text(encoding="utf-8")
    assert "<code>ntk-fuse</code>" in board and "blobs, d = 2" in board


def test_false_alarms_are_those_of_the_record(site):
    """None is missing of seven charts, four laws, two dimensions, three references, two windows."""
    charts = runpy.run_path(str(ROOT / "docs" / "_hooks" / "charts.py"))
    page = (site / "benchmarks" / "changepoint.html").read_text(encoding="utf-8")
    for kind in ("false alarms", "run lengths"):
        cells = charts["rows"](kind)
        of_all = [row["chart"] for row in cells if row["frames"] not in ("returns", "one slow")]
        for chart in ("net", "ntk", "all", "gmmd", "hotelling", "cusum", "ntk-fuse"):
            assert of_all.count(chart) == 4 * 2 * 3 * 2
        for row in cells:
            assert charts["_cell"](row) in page
    with pytest.raises(KeyError, match="no false alarms of 'nobody'"):
        charts["table"]("false alarms", "nobody")


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"])
def test_links_into_the_checkout_lead_somewhere(name):
    """Of pages outside `docs/`, which mkdocs does not check."""
    text = (ROOT / name).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)\s#]+)", text) if "://" not in link]
    assert not [link for link in links if not (ROOT / link).exists()]


@pytest.mark.parametrize("page", RUNNING)
def test_python_runs(page, tmp_path, monkeypatch):
    """All python blocks of a page, in order, in one session."""
    monkeypatch.chdir(tmp_path)
    exec(compile(STRANGER["blocks"](page), page, "exec"), {"__name__": "__main__"})


def commands(path):
    """Calls of `ntkmmd` in a page: lines of its sh blocks, and code within its text."""
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line.rpartition("&& ")[2] for block in blocks for line in block.splitlines()]
    lines += [" ".join(code.split()) for code in re.findall(r"`(ntkmmd [^`]+)`", text)]
    for line in lines:
        program, *words = shlex.split(line, comments=True) or [""]
        if program.endswith("ntkmmd"):
            yield words


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_are_understood(path):
    """Every command and option that a page names is one that there is."""
    group = get_command(app)
    before = {word for one in group.params for word in (*one.opts, *one.secondary_opts)}
    for words in commands(path):
        while words and words[0] in before:
            words.pop(0)
        if len(words) > 1:
            group.commands[words[0]].make_context(words[0], words[1:])
