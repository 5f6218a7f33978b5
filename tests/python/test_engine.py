"""Sequences and steps."""

import gc
import json
import threading

import numpy as np
import phidias
import pytest
from safetensors.numpy import load_file


def test_logits_are_arrays_of_ones_own(tiny):
    sequence = tiny.engine.open()
    first = sequence.append([1, 2, 3])
    kept = first.copy()
    assert first.shape == (260,) and first.dtype == np.float32
    sequence.append([4])
    assert np.array_equal(first, kept)
    assert first.flags.writeable and first.flags.owndata is False


def test_a_prompt_in_one_step_or_in_several_gives_the_same_bits(tiny):
    ids = tiny.tokenizer.encode("the same bits")
    whole = tiny.engine.open().append(ids, outputs="all")
    sequence = tiny.engine.open(prompt_tokens=len(ids))
    cut = np.concatenate([sequence.append(ids[a : a + 4], outputs="all") for a in range(0, 13, 4)])
    assert np.array_equal(whole, cut)
    assert len(sequence) == len(ids) and sequence.tokens == ids


def test_many_sequences_run_in_one_step(tiny):
    a, b = tiny.engine.open(), tiny.engine.open()
    together = tiny.engine.step([(a, [1, 2, 3]), (b, [9])])
    assert [part.shape for part in together] == [(1, 260), (1, 260)]
    assert np.array_equal(together[0][0], tiny.engine.open().append([1, 2, 3]))
    assert np.array_equal(together[1][0], tiny.engine.open().append([9]))


def test_a_fork_goes_its_own_way(tiny):
    trunk = tiny.engine.open()
    trunk.append([1, 2, 3])
    branch = trunk.fork()
    branch.append([4, 5])
    assert trunk.tokens == [1, 2, 3]
    trunk.append([4])
    branch.truncate(4)
    assert np.array_equal(trunk.append([6]), branch.append([6]))


def test_an_error_leaves_the_sequence_as_it_was(tiny):
    sequence = tiny.engine.open()
    sequence.append([1, 2])
    with pytest.raises(ValueError):
        sequence.append([100000])
    assert sequence.tokens == [1, 2]
    with pytest.raises(ValueError, match="no ids"):
        sequence.append([])
    with pytest.raises(ValueError, match="'last' or 'all'"):
        sequence.append([3], outputs="some")


def test_pages_are_given_back_with_the_sequence(tiny_path):
    engine = phidias.Model(tiny_path).new_engine()
    sequence = engine.open()
    sequence.append([1, 2, 3])
    assert engine.cache_bytes_in_use > 0
    del sequence
    gc.collect()
    assert engine.cache_bytes_in_use == 0


def test_a_sequence_outlives_the_names_of_its_engine_and_model(tiny_path):
    sequence = phidias.Model(tiny_path).new_engine(numerics="exact").open()
    gc.collect()
    assert sequence.append([1, 2]).shape == (260,)


def test_threads_that_share_an_engine_take_turns(tiny):
    expected = tiny.engine.open().append([1, 2, 3, 4])
    found = []

    def work():
        for _ in range(20):
            found.append(np.array_equal(tiny.engine.open().append([1, 2, 3, 4]), expected))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 80


def test_a_callback_that_uses_its_own_engine_is_told_instead_of_waiting_for_itself(tiny):
    def progress(done, total):
        tiny.engine.open()
        return True

    with pytest.raises(phidias.InvalidArgumentError, match="callback"):
        tiny.perplexity("some words to score " * 20, window=32, progress=progress)
    assert tiny.engine.open().append([1]).shape == (260,)


def test_sizes_and_options_are_told(tiny):
    assert (tiny.info.num_layers, tiny.info.hidden_size, tiny.info.num_kv_heads) == (3, 32, 2)
    assert tiny.engine.options["numerics"] == "exact" and tiny.engine.options["kv"] == "f32"
    assert tiny.engine.memory["cache_per_position"] == 2 * 3 * 2 * 8 * 4
    assert tiny.new_engine(numerics="fast").options["kv"] == "f16"
    with pytest.raises(AttributeError):
        tiny.info.num_layers = 4


def test_inspection_reads_headers_alone(tiny_path):
    inspection = phidias.inspect(str(tiny_path))
    assert inspection.problems == []
    assert inspection.info.vocab_size == 260
    assert json.loads(inspection.config_json)["model_type"] == "phi3"


def test_perplexity_is_that_of_the_logits(tiny):
    ids = tiny.tokenizer.encode("a text of some length, to be scored in a few windows.")
    found = tiny.perplexity(ids, window=16)
    loss = 0.0
    for begin in range(0, len(ids) - 15, 16):
        window = ids[begin : begin + 16]
        logits = tiny.engine.open().append(window, outputs="all").astype(np.float64)
        for position in range(15):
            exponentials = np.exp(logits[position] - logits[position].max())
            loss -= np.log(exponentials[window[position + 1]] / exponentials.sum())
    assert found["tokens"] == 15 * (len(ids) // 16)
    assert found["perplexity"] == pytest.approx(np.exp(loss / found["tokens"]), rel=1e-5)


def test_perplexity_against_a_saved_run_of_the_same_model_has_no_divergence(tiny, tmp_path):
    text = "a text of some length, to be scored in windows."
    tiny.perplexity(text, window=16, save=tmp_path / "run.safetensors")
    found = tiny.perplexity(text, window=16, against=tmp_path / "run.safetensors")
    assert found["same_best"] == 1.0 and found["kl_mean"] == pytest.approx(0, abs=1e-4)


def test_progress_can_stop_perplexity_and_its_exceptions_come_through(tiny):
    with pytest.raises(phidias.CancelledError):
        tiny.perplexity("words " * 50, window=32, progress=lambda done, total: False)
    with pytest.raises(ZeroDivisionError):
        tiny.perplexity("words " * 50, window=32, progress=lambda done, total: 1 / 0)


@pytest.mark.parametrize("variant", ["mini-4k", "medium-4k", "mini-128k", "phi-4-mini"])
def test_logits_are_the_references(reference, variant):
    folder = reference / "models" / variant
    model = phidias.Model(folder, numerics="exact")
    for path in sorted((folder / "values").glob("len*.safetensors")):
        values = load_file(path)
        ids = values["input_ids"][0].tolist()
        logits = model.engine.open(prompt_tokens=len(ids)).append(ids, outputs="all")
        assert np.abs(logits - values["logits"][0]).max() <= 2e-5 * np.abs(values["logits"]).max()


def test_weights_have_the_type_that_was_asked_for(reference):
    folder = reference / "models" / "mini-4k"
    for name in ("q4", "Q4_0", "q8_0", "f32"):
        types = phidias.Model(folder, weights=name).info.weight_types
        assert max(types, key=lambda pair: pair[1])[0].lower() == name.lower()
    with pytest.raises(phidias.InvalidArgumentError, match="q4_k") as caught:
        phidias.Model(folder, weights="q99")
    assert caught.value.item == "weights"
