"""What a session at a prompt shows: short texts for objects, and what was meant where it was misspelt."""

import numpy as np
import phidias
import pytest

CLEAN, CORRUPT = "the cat sat", "the dog sat"
METRIC = phidias.logit_diff(97, 98)


def test_nothing_shows_itself_as_an_address(tiny, tmp_path):
    with tiny.trace(CLEAN) as t:
        saved = t.layers[1].layer_output.save()
    stream = tiny.stream(CLEAN, max_new_tokens=2, stop_ids=[])
    shown = [repr(stream), *map(repr, stream), repr(stream)]
    answer = tiny.generate(CLEAN, max_new_tokens=2, logprobs=2, stop_ids=[])
    things = [
        tiny, tiny.layers, tiny.layers[1], tiny.layers[1].mlp, tiny.layers[1].layer_output, tiny.info,
        tiny.tokenizer, tiny.chat_template, tiny.engine, tiny.engine.open(), t, saved, answer,
        answer.choices[0], answer.tokens[0], phidias.inspect(tiny.info.path), tiny.layers_output,
        tiny.trace(CLEAN).plan(), METRIC, phidias.zero("logits"), tiny.lens("abc"),
        phidias.patch_sweep(tiny, CLEAN, CORRUPT, METRIC), phidias.head_scores(tiny, CLEAN, "first"),
        phidias.attribute(tiny, CLEAN, CORRUPT, METRIC, "layers[*].mlp_output"),
        phidias.direct_attribution(tiny, CLEAN, "a"), phidias.layouts.Residual,
        phidias.contrast(tiny, [("a", "b"), ("c", "e")]),
        phidias.collect(tiny, ["abc"], "layers[1].layer_output", tmp_path),
    ]  # fmt: skip
    shown += map(repr, things)
    assert [text for text in shown if " at 0x" in text or not text] == []


def test_numbers_are_printed_as_numbers(tiny):
    with tiny.trace(CLEAN) as t:
        row, one = t.layers[1].layer_output[0, -1].save(), t.logits[0, -1, 5].save()
        assert "not run yet" in str(row)
    assert str(row) == str(row.numpy()) and repr(row) == "<layers[1].layer_output[at=-1] [32]>"
    assert f"{one:.2f}" == f"{float(one):.2f}"


def test_results_show_tables(tiny):
    foretold = phidias.attribute(tiny, CLEAN, CORRUPT, METRIC, "layers[*].mlp_output")
    assert repr(foretold).startswith("metric: ") and "layer " in repr(foretold)
    page = foretold._repr_html_()
    assert "layers[*].mlp_output" in page and page.count("<tr") == 1 + tiny.num_layers
    sweep = phidias.patch_sweep(tiny, CLEAN, CORRUPT, METRIC)
    assert repr(sweep) == str(sweep) and len(repr(sweep).splitlines()) == 4


def test_sums_of_an_attribution(tiny):
    heads = tiny.layers[:].self_attn.attention_head_outputs
    found = phidias.attribute(tiny, CLEAN, CORRUPT, METRIC, [heads, "layers[1].mlp.mlp_output"])
    assert np.allclose(found.by("heads", heads), found[heads].sum((1, 2, 4)), atol=1e-6)
    assert np.allclose(found.by("positions", heads), found[heads].sum((1, 3, 4)), atol=1e-6)
    one = found.by("hidden_size", "layers[1].mlp_output")
    assert np.allclose(one[0], found["layers[1].mlp.mlp_output"].sum((0, 1)), atol=1e-6)
    with pytest.raises(ValueError, match="axes are batch, seq, hidden_size"):
        found.by("heads", "layers[1].mlp_output")
    with pytest.raises(KeyError, match="was not read"):
        found["layers[2].mlp_output"]


@pytest.mark.parametrize(
    ("line", "error", "meant"),
    [
        ("m.layers[1].layer_ouput", AttributeError, "did you mean layer_output"),
        ("m.layers[1].self_attn.attention_pattern", AttributeError, "attention_p"),
        ("m.generate('x', max_tokens=3)", TypeError, "did you mean max_new_tokens"),
        ("m.generate('x', temprature=1)", TypeError, "did you mean temperature"),
        ("m.with_options(precision=1)", TypeError, "numerics"),
        ("m.generate('x', edits=phidias.ControlVector({1: [0] * 32}))", TypeError, r"steer\(\)"),
        ("m.run('x', lambda m: None)", TypeError, "yield"),
        ("m.probs_to_dict([[0.5, 0.5], [1, 0]])", ValueError, "index one"),
        ("phidias.hide(m.layers[0].self_attn.attention_scores).qualified(mask='l')", ValueError, "lift"),
    ],
)
def test_what_was_meant_is_told(tiny, line, error, meant):
    with pytest.raises(error, match=meant):
        eval(line, {"m": tiny, "phidias": phidias})


def test_values_are_found_however_they_are_spelled(tiny, tmp_path):
    answer = tiny.generate("ab", max_new_tokens=2, stop_ids=[], read="layers[1].mlp_output")
    expected = answer["layers[1].mlp_output"]
    for name in ("layers.1.mlp.mlp_output", tiny.layers[1].mlp.mlp_output, "blocks.1.hook_mlp_out"):
        assert np.array_equal(answer[name], expected)
    dataset = phidias.collect(tiny, ["abc"], "layers[1].layer_output", tmp_path)
    for name in ("layers[1].layer_output", tiny.layers[1].layer_output):
        assert np.array_equal(dataset[name][:], dataset["layers.1.layer_output"][:])
    with pytest.raises(phidias.NotFoundError, match=r"layers\[2\]"):
        dataset[tiny.layers[2].layer_output]


def test_labels_of_a_prompt(tiny):
    assert tiny.token_texts("a b\n") == ["a", "\u2423", "b", "\u21b5"]


def test_one_set_of_weights_in_several_configurations(tiny):
    fast = tiny.with_options(numerics="fast", context=64)
    assert fast._weights is tiny._weights
    assert (fast.engine.options["numerics"], fast.engine.context) == ("fast", 64)
    assert tiny.engine.options["numerics"] == "exact" and tiny.engine.context == 256
    again = fast.with_options(numerics="exact", context=0)
    options = {"max_new_tokens": 6, "stop_ids": []}
    assert again.generate("Once", **options).ids == tiny.generate("Once", **options).ids
    with tiny.edited(phidias.zero("layers[0].mlp_output")):
        assert tiny.with_options()._lasting_edits == []


def test_edits_by_name_are_assignments(tiny):
    random = np.random.default_rng(4)
    vector = random.normal(size=32).astype(np.float32)
    place = tiny.layers[1].layer_output

    def run(edits):
        with tiny.trace(CLEAN, edits=edits) as t:
            out = t.layers[1].layer_output.save()
        return out.numpy()

    def assigned(change):
        with tiny.trace(CLEAN) as t:
            change(t.layers[1])
            out = t.layers[1].layer_output.save()
        return out.numpy()

    def put(layer):
        layer.layer_output = vector

    def added(layer):
        layer.layer_output += 2 * vector

    def scaled(layer):
        layer.layer_output *= 0.5

    assert np.array_equal(run(phidias.replace(place, vector)), assigned(put))
    assert np.allclose(run(phidias.add(place, vector, 2)), assigned(added), atol=1e-5)
    assert np.array_equal(run(phidias.scale(place, 0.5)), assigned(scaled))


def test_what_was_saved_is_frozen_in_another_run(tiny):
    """Path patching's other half: patterns stay those of the clean run, whatever else changes."""
    with tiny.trace(CLEAN) as t:
        patterns = t.layers[1:].self_attn.attention_probabilities.save()
        head = t.layers[2].self_attn.attention_head_outputs[0, :, 3].save()
    edits = [*phidias.freeze(patterns), *phidias.freeze(head)]
    with tiny.trace(CORRUPT, edits=edits) as t:
        again = t.layers[:].self_attn.attention_probabilities.save()
        heads = t.layers[2].self_attn.attention_head_outputs.save()
    assert np.array_equal(again[1:], patterns) and not np.array_equal(again[0], patterns[0])
    assert np.array_equal(heads[0, :, 3], head)


def test_qualifiers_are_added_one_by_one(tiny):
    probe = np.ones(8, np.float32)
    edit = phidias.scale("layers[1].attention_keys", 2)
    both = edit.qualified(scope="call", queries=[3]).qualified(when=(probe, 0.5)).qualified(order=2)
    assert both == edit.qualified(scope="call", queries=[3], when=(probe, 0.5), order=2)
    assert '"scope":"call"' in phidias.Edits([both]).to_json()
