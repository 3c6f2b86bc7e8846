"""The project's own housekeeping: style, README, and what the two commands promise."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff(command):
    run = subprocess.run(
        [sys.executable, "-m", "ruff", *command, "."], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout


def test_readme_has_the_two_commands():
    """`.ci/run` reads its command off the README: there must be exactly one."""
    blocks = re.findall(r"<!-- (\w+ command) -->\n```sh\n(.*?)\n```\n", README, re.DOTALL)
    assert [name for name, _ in blocks] == ["main command", "test command"]
    assert "ntkmmd test --demo" in blocks[0][1] and "pytest" in blocks[1][1]


def test_readme_is_a_front_page():
    """Its python runs in tests/test_packaging.py, its commands are read in tests/test_docs.py."""
    assert len(README.splitlines()) <= 150


def test_files_are_short():
    long = {
        str(path.relative_to(ROOT)): lines
        for path in (ROOT / "ntkmmd_jax").rglob("*.py")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 300
    }
    assert not long
