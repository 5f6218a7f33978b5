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
EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "python"


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


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """mypy --strict, by arguments: what it has said, if anything."""
    pytest.importorskip("mypy")
    cache = tmp_path_factory.mktemp("mypy")
    paths = [str(EXAMPLES)]
    if FOLDER.parent.name != "site-packages":  # where it is installed mypy finds it, and wants no path
        paths.append(str(FOLDER.parent))

    def check(*arguments):
        command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), *arguments]
        environment = os.environ | {"MYPYPATH": os.pathsep.join(paths)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=cache)
        return "" if done.returncode == 0 else done.stdout + done.stderr

    return check


def test_the_types_are_consistent(checked):
    assert checked("-p", "phidias") == ""


def test_the_examples_have_types(checked):
    assert checked(*map(str, sorted(EXAMPLES.glob("*.py")))) == ""


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
