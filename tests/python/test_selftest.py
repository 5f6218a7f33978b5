"""Models check themselves, and a check that does not hold is told."""

import numpy as np
import phidias
import pytest
from phidias import selftest
from phidias.__main__ import main


def test_a_model_passes_its_checks(tiny):
    found = list(selftest.run(tiny))
    assert [check.name for check in found] == list(selftest.CHECKS)
    assert [check for check in found if check.failure] == []


@pytest.mark.parametrize("folder", ["phimoe", "phi3small-8k", "phi3-vision", "phi-4-mini"])
def test_so_do_its_relatives(reference, folder):
    model = phidias.Model(reference / "models" / folder, numerics="exact")
    failed = [check for check in selftest.run(model) if check.failure]
    assert failed == []


@pytest.mark.parametrize("name", list(selftest.CHECKS))
def test_a_fault_is_found(tiny, monkeypatch, name):
    """Each check, with numbers that lie."""
    if name == "names_are_aliases":
        monkeypatch.setattr(type(tiny), "__getitem__", lambda self, path: self.layers[1].layer_input)
    elif name == "support_is_true":
        monkeypatch.setattr(tiny, "support", lambda: {"logits": {0: "no"}}, raising=False)
    elif name == "patterns_reach_the_output":
        monkeypatch.setattr(selftest, "_logits", lambda model: edited_pattern(model))
    elif name in ("looking_changes_nothing", "ids_can_be_replaced"):
        monkeypatch.setattr(selftest, "_logits", lambda model: np.zeros((1, 7, 260)))
    elif name == "the_last_lens_is_the_model":
        monkeypatch.setattr(type(tiny), "project_on_vocab", lambda self, x: np.zeros(260))
    else:
        lying = [phidias.scale(f"layers[1].{value}", 1.5) for value in ("mlp_input", "layer_output")]
        lying.append(phidias.scale("layers[1].attention_probabilities", 1.5))
        with tiny.edited(lying):
            (check,) = selftest.run(tiny, [name])
        assert check.failure and "FAILED" in str(check)
        return
    (check,) = selftest.run(tiny, [name])
    assert check.failure and "FAILED" in str(check)


def edited_pattern(model):
    with model.trace(selftest._IDS) as t:
        t.layers[0].self_attn.attention_probabilities = np.eye(len(selftest._IDS))
        logits = t.logits.save()
    return logits.numpy()


def test_the_module_is_a_command(tiny_path, tmp_path, capsys):
    assert main(["run_tests", "-m", str(tiny_path), "-c", "names_are_aliases"]) == 0
    assert "ok  names_are_aliases" in capsys.readouterr().out
    assert main(["run_tests", "-m", str(tmp_path / "none")]) == 1
    with pytest.raises(SystemExit):
        main(["run_tests"])
