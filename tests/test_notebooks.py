"""Every notebook runs from top to bottom, and is kept with its outputs, small."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.conftest import QUICK

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


def test_there_are_notebooks():
    assert NOTEBOOKS


def test_kept_with_outputs_and_small(path):
    assert path.stat().st_size < 500_000
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"]


def test_opens_with_what_one_learns(path):
    first = nbformat.read(path, as_version=4).cells[0]
    title, learned, *_ = first.source.split("\n\n")
    assert first.cell_type == "markdown" and title.startswith(f"# {path.stem.split('_')[0]}. ")
    assert learned.startswith("**What you learn:** ")


def test_runs(path, tmp_path, monkeypatch):
    """A cell that raises makes `execute` raise; nothing outside the temporary folder is needed."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("XLA_FLAGS", f"{QUICK} --xla_backend_optimization_level=1")  # runs long
    notebook = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=folder).execute()
