"""Notebooks and the reproduction as pages, with the outputs that they are kept with.

Nothing is executed: `tests/test_notebooks.py` does that. Pictures become files of the site.
"""

import base64
from collections.abc import Iterator
from pathlib import Path

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page a notebook, the report of the reproduction, and all of their pictures."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        pictures: dict[str, bytes] = {}
        text = "\n\n".join(_cells(path, pictures))
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, picture in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=picture))
    for folder in ("reproduction", "images"):
        for path in sorted((NOTEBOOKS / folder).iterdir()):
            if path.suffix in (".md", ".png"):
                at = f"{folder}/{path.name}"
                files.append(File.generated(config, at, content=path.read_bytes()))
    return files


def _cells(path: Path, pictures: dict[str, bytes]) -> Iterator[str]:
    """The cells of a notebook in Markdown; its pictures go into `pictures`, by name."""
    for number, cell in enumerate(nbformat.read(path, as_version=4).cells):
        if cell.cell_type == "markdown":
            yield cell.source
            continue
        yield f"```python\n{cell.source}\n```"
        for place, output in enumerate(cell.outputs):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{path.stem}-{number}-{place}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                yield f"![What the cell above draws]({name})"
            elif text := output.get("text") or data.get("text/plain"):
                yield f"```text\n{text.rstrip()}\n```"
    yield (
        f"*The notebook is `notebooks/{path.name}` in the repository, executed as it is shown "
        "here; the tests execute it again.*"
    )
