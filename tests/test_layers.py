"""The staircase: imports point one way, from the upper floors down, wherever they stand."""

import ast
from pathlib import Path

import ntkmmd_jax

ROOT = Path(ntkmmd_jax.__file__).parent
FLOORS = [
    "_version",
    "_lib",
    "measure",
    "bins",
    "pooled",
    "networks",
    "witness",
    "calibration",
    "plotting",
    "training",
    "kernels",
    "theory",
    "sequential",
    "twosample",
    "datasets",
    "power",
    "changepoint",
    "experiments",
    "cli",
    "__init__",
    "__main__",
]


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield parts[0], ".".join(p for p in parts if p != "__init__") or "__init__", path


KNOWN = {name for _, name, _ in modules()}


def nodes(path):
    """All nodes of a file but what only a type checker runs."""
    queue = [ast.parse(path.read_text(encoding="utf-8"))]
    while queue:
        node = queue.pop()
        if not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"):
            yield node
            queue += ast.iter_child_nodes(node)


def imported(path):
    """Modules of ours that a file imports, at its top or inside a function."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ntkmmd_jax":
            base = node.module.split(".")[1:]
            for alias in node.names:
                full = ".".join([*base, alias.name])
                yield full if full in KNOWN else ".".join(base) or "__init__"
        elif isinstance(node, ast.Import):
            yield from (a.name.partition(".")[2] for a in node.names if a.name == "ntkmmd_jax")


def test_every_entry_has_its_floor():
    found = {floor for floor, _, _ in modules()}
    assert found == set(FLOORS)


def promised(path):
    """The modules that a package imports when somebody asks for their names (`_lib.lazy`)."""
    if path.name != "__init__.py":
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            yield from (one.module.partition(".")[2] or "__init__" for one in node.body)


def test_no_import_points_upward():
    upward = [
        f"{name} imports {target}"
        for floor, name, path in modules()
        for target in (*imported(path), *promised(path))
        if floor not in ("cli", "__main__")  # the command line imports the package as a user does
        and FLOORS.index(target.split(".")[0] or "__init__") > FLOORS.index(floor)
    ]
    assert not upward


def test_no_cycle():
    """Depth-first over all imports, those inside functions too; a package is its `__init__`."""
    graph = {name: set(imported(path)) - {name} for _, name, path in modules()}
    state = {}

    def visit(name, trail):
        assert state.get(name) != "open", " -> ".join([*trail, name])
        if state.get(name) == "done":
            return
        state[name] = "open"
        for target in sorted(graph.get(name, ())):
            visit(target, [*trail, name])
        state[name] = "done"

    for name in sorted(graph):
        visit(name, [])


def test_plotting_is_the_one_importer_of_matplotlib():
    def names(node):
        return [getattr(node, "module", "") or "", *(alias.name for alias in node.names)]

    users = {
        name
        for _, name, path in modules()
        for node in nodes(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and any(found.startswith("matplotlib") for found in names(node))
    }
    assert users == {"plotting.canvas"}
