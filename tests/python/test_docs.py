"""The tutorial, run as it stands."""

import pathlib
import re
import warnings

import pytest

TUTORIAL = pathlib.Path(__file__).parents[2] / "docs" / "python-tutorial.md"


@pytest.mark.slow
def test_the_tutorial_runs_as_it_stands(real_path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = TUTORIAL.read_text(encoding="utf-8").replace("path/to/model", str(real_path))
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 10
    scope = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks:
            exec(compile(block, str(TUTORIAL), "exec"), scope)
    written = capsys.readouterr().out
    assert "' Paris'" in written and "agreement" in written
    assert scope["sweep"].base < 0 < scope["sweep"].clean
    assert scope["by_head"].shape == scope["sweep"].change.shape
    glad, sad, laughed, wept = scope["scores"]
    assert glad > sad and laughed > wept
    assert "</html>" in (tmp_path / "lens.html").read_text()
