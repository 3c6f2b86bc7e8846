"""What is built and shipped, and a stranger's path with it: `.ci/stranger` in an empty folder."""

import re
import runpy
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from ntkmmd_jax import __version__

ROOT = Path(__file__).parent.parent
STRANGER = ROOT / ".ci" / "stranger"
PAGES = runpy.run_path(str(STRANGER))["PAGES"]


@pytest.fixture(scope="module")
def path_taken(tmp_path_factory):
    """The stranger's folder, and what was said on the way."""
    folder = tmp_path_factory.mktemp("stranger")
    command = [sys.executable, str(STRANGER), "--keep", str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stderr
    return folder, run.stdout


@pytest.fixture(scope="module")
def tracked():
    """Every file of the checkout that is not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if run.returncode:
        pytest.skip("only a git checkout knows which files are the project's")
    return {name for name in run.stdout.splitlines() if (ROOT / name).exists()}


def test_a_stranger_gets_through(path_taken):
    """The README, a network of one's own, a sweep and a stream, by the wheel alone."""
    _, said = path_taken
    assert f"ntkmmd {__version__}" in said
    followed = re.findall(r"^followed \d (\w+) in", said, re.MULTILINE)
    assert followed == [Path(page).stem for page in PAGES]


def test_the_wheel_is_the_package(path_taken, tracked):
    (wheel,) = (path_taken[0] / "dist").glob("*.whl")
    about = f"ntkmmd_jax-{__version__}.dist-info/"
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.startswith(about)}
        metadata = archive.read(f"{about}METADATA").decode()
        assert archive.read(f"{about}licenses/LICENSE").decode() == (ROOT / "LICENSE").read_text()
    assert names == {name for name in tracked if name.startswith("ntkmmd_jax/")}
    assert "ntkmmd_jax/py.typed" in names
    assert "License-Expression: Apache-2.0" in metadata


def test_the_source_distribution_is_the_checkout(path_taken, tracked):
    (archive,) = (path_taken[0] / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as files:
        found = {one.name.partition("/")[2] for one in files if one.isfile()}
    made = {name for name in found if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    assert found - made == tracked


def test_one_version():
    """The citation and the changelog cannot read it; they are held to it."""
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    numbered = re.findall(r"^## (\d\S*)", changelog, re.MULTILINE)
    assert numbered[0] == __version__
