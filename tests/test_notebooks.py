"""Every notebook runs from top to bottom, and is kept with its outputs, small."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

# Cells run as they are, but for fewer replicas, images and seeds: what is shown takes minutes.
FEWER = {
    "1_first_test": {"key(1), 2000)": "key(1), 100)"},
    "2_trained_versus_exact": {"range(8):": "range(2):"},
    "3_power_sweep": {"n_runs=500": "n_runs=10", "n_runs=200": "n_runs=40"},
    "4_mnist_abundance": {"key(4), 2000,": "key(4), 200,"},
    "5_change_point": {"n_runs=200": "n_runs=10", "n_runs=100": "n_runs=10"},
    "6_anytime": {"key(1), 200)": "key(1), 20)", "n_runs=100": "n_runs=20"},
    "7_embeddings": {"n_runs=50": "n_runs=4"},
}
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
    notebook = nbformat.read(path, as_version=4)
    for written, fewer in FEWER[path.stem].items():
        cells = [cell for cell in notebook.cells if written in cell.source]
        assert cells, f"no cell of {path.stem} has {written!r}"
        for cell in cells:
            cell.source = cell.source.replace(written, fewer)
    folder = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=folder).execute()
