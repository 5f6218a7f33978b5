"""The fifteen workflows as examples, on the real small model, each with a result that one knows."""

import importlib
import pathlib
import sys

import numpy as np
import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "examples" / "python"


@pytest.fixture
def run(real_path, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(FOLDER)

    def go(name, suffix=".html"):
        """Runs it and checks what it has written."""
        sys.modules.pop(name, None)
        written = tmp_path / f"{name}{suffix}"
        found = importlib.import_module(name).main(str(real_path), str(written))
        assert written.exists() if suffix != ".html" else "</html>" in written.read_text()
        return found

    return go


def test_the_lens_ends_in_the_models_own_answer(run):
    lens = run("logit_lens")
    assert lens.texts[-1][-1] == "\u2423Paris"
    assert "\u2423Paris" not in [layer[-1] for layer in lens.texts[:15]]


def test_the_fact_moves_from_the_subject_to_the_last_token(run):
    found = run("causal_tracing")
    grid, end = found["grid"], found["end"]
    assert found["clean"] > 0.5 and found["corrupted"] < 0.1
    lost = found["clean"] - found["corrupted"]
    assert grid[-1, -1] > found["corrupted"] + 0.9 * lost
    assert grid[0, 1 : end + 1].max() > grid[-1, 1 : end + 1].max()
    assert grid[-1, end] == pytest.approx(found["corrupted"], abs=1e-3)


def test_the_country_turns_the_answer_early_and_the_last_token_late(run):
    sweep = run("activation_patching")
    country = sweep.columns.index("\u2423Germany")
    share = sweep.recovered
    assert sweep.clean > 1 and sweep.base < -1
    assert share[0, country] > 0.8 and share[-1, country] == pytest.approx(0, abs=1e-3)
    assert share[-1, -1] == pytest.approx(1, abs=1e-3) and abs(share[0, -1]) < 0.2


def test_gradients_foretell_patches(run):
    found = run("attribution_patching")
    assert found["correlation"] > 0.8
    assert np.abs(found["foretold"]).max() > 0.5


def test_a_vector_makes_the_story_glad_or_gloomy(run):
    texts = run("steering", ".gguf")
    assert len(set(texts.values())) == 3
    assert any(word in texts["glad"].lower() for word in ("joy", "love", "amazing", "happy", "peace"))
    assert any(word in texts["gloomy"].lower() for word in ("kill", "death", "evil", "dead", "bad"))


@pytest.mark.slow
def test_a_sparse_autoencoder_can_stand_in_for_the_stream(run):
    found = run("sparse_autoencoder")
    losses = found["losses"]
    assert found["explained"] > 0.5 and found["recovered"] > 0.6
    assert losses["clean"] < losses["autoencoder"] < losses["mean"]
    assert losses["without one feature"] != losses["clean"]


def test_an_answer_needs_the_first_layer_and_not_every_other(run):
    found = run("ablation")
    assert found["whole"] > 0.5
    assert found["without_layer"][0] < 0.01
    assert max(found["without_layer"]) > 0.5
    assert found["without_head"].min() < found["whole"] - 0.02


def test_stored_activations_are_a_live_runs(run):
    found = run("activation_cache", "")
    assert found["tokens"] > 300 and found["shards"] == -(-found["tokens"] // 256)
    assert 0 < found["worst"] < 2**-8


def test_the_language_is_read_off_the_stream_but_not_off_the_dots(run):
    accuracy = run("probing")
    assert accuracy[0] <= 0.6
    assert max(accuracy[5:]) >= 0.9


def test_the_shares_of_a_logit_sum_to_it(run):
    found = run("direct_logit_attribution")
    assert found.total == pytest.approx(found.logit, rel=2e-3)
    # The last layers write the answer.
    best = max(found.parts, key=found.parts.get)
    assert int(best.split(".")[1]) >= 15


def test_heads_look_at_the_token_before_and_at_the_first(run):
    found = run("attention_patterns")
    assert found["found"]["previous"][2] > 0.5
    assert found["found"]["first"][2] > 0.9
    assert np.allclose(found["patterns"].sum(-1), 1, atol=1e-3)


def test_without_induction_heads_a_repetition_is_not_foreseen(run):
    found = run("induction_heads")
    assert found["best"] > 0.4
    assert found["without"] > found["whole"] + 0.5
    assert found["without"] > found["others"] + 0.3


def test_few_heads_tell_the_name_movers_whom_to_name(run):
    found = run("path_patching")
    assert found["clean"] > 3 and found["corrupt"] < -3  # Mary, and John
    assert found["unchanged"] == pytest.approx(found["clean"], abs=1e-4)
    assert found["whole"] < -2
    effect = np.sort(found["effect"], axis=None)
    assert effect[0] < -0.5  # one edge alone
    assert np.median(np.abs(effect)) < 0.1  # and most say nothing


def test_the_model_says_the_word_that_it_has_in_mind(run):
    said = run("patchscopes")
    for source, words in said.items():
        word = source.split()[-1]
        assert any(one.strip() and word.startswith(one.strip()) for one in words), (source, words)


def test_neurons_have_favourite_tokens(run):
    found = run("neuron_contexts")
    assert found["tokens"] > 2000
    assert min(len(set(tokens)) for tokens in found["found"].values()) <= 3
