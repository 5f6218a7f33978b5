"""The package as it is installed: names, documentation, types."""

import inspect
import os
import pathlib
import re
import subprocess
import sys

import phidias
import pytest
from phidias import _core

FOLDER = pathlib.Path(phidias.__file__).parent


def test_every_public_name_is_there_and_documented():
    for name in phidias.__all__:
        thing = getattr(phidias, name)
        if inspect.isclass(thing) or inspect.isroutine(thing):
            assert inspect.getdoc(thing), name
    for name, thing in vars(phidias.Model).items():
        if not name.startswith("_"):
            assert inspect.getdoc(thing), name


def test_the_extensions_types_are_beside_it():
    assert (FOLDER / "py.typed").exists()
    stub = (FOLDER / "_core.pyi").read_text()
    for name, thing in vars(_core).items():
        if not name.startswith("_") and (inspect.isclass(thing) or callable(thing)):
            assert re.search(rf"^(class|def) {name}\b", stub, re.MULTILINE), name


def test_the_types_are_consistent(tmp_path):
    pytest.importorskip("mypy")
    environment = dict(os.environ)
    if FOLDER.parent.name != "site-packages":  # where it is installed mypy finds it, and wants no path
        environment["MYPYPATH"] = str(FOLDER.parent)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "-p", "phidias"]
    checked = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_program_that_ends_with_a_stream_open_ends_quietly(tmp_path):
    program = "import phidias, sys; m = phidias.Model(sys.argv[1]); s = m.stream('x'); next(s)"
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    from conftest import write_tiny_model

    write_tiny_model(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(FOLDER.parent)},
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
