"""Traces: reading, editing, callbacks, batches, and what they leave alone."""

import gc
import json

import numpy as np
import phidias
import pytest
from phidias.values import INFOS
from safetensors.numpy import load_file

TEXT = "The same bits"


def logits_of(model, ids, **options):
    with model.trace(ids, **options) as t:
        logits = t.logits.save()
    return logits.numpy()


def rms_norm(x, weight):
    scale = 1 / np.sqrt(np.mean(np.square(x.astype(np.float64)), -1, keepdims=True) + 1e-5)
    return x * scale * weight


def test_reads_have_the_pages_layouts_in_any_order(tiny):
    with tiny.trace(TEXT) as t:
        n = len(t.ids)
        probabilities = t.next_token_probs.save()
        pattern = t.layers[2].self_attn.attention_probabilities.save()
        keys = t.layers[0].self_attn.attention_keys.save()
        stream = t.layers[1].layer_output.save()
        heads = t.layers[0].self_attn.attention_head_outputs.save()
        neurons = t.layers[0].mlp.mlp_neurons.save()
        size = t.input_size.save()
    assert probabilities.shape == (1, 260)
    assert pattern.shape == (1, 4, n, n)
    assert keys.shape == (1, 2, n, 8)
    assert stream.shape == (1, n, 32)
    assert heads.shape == (1, n, 4, 8)
    assert neurons.shape == (1, n, 48)
    assert size.tolist() == [1, n]
    assert stream.dtype == np.float32


def test_the_contribution_identity_holds_to_the_bit_on_every_block(tiny):
    with tiny.trace(TEXT) as t:
        parts = [
            (
                layer.layer_input.save(),
                layer.self_attn.attention_output.save(),
                layer.mlp.mlp_output.save(),
                layer.layer_output.save(),
            )
            for layer in t.layers
        ]
    for stream, attention, mlp, out in parts:
        assert np.array_equal((stream + attention) + mlp, out)


def test_a_slice_is_what_slicing_the_whole_gives(tiny):
    with tiny.trace(TEXT) as t:
        attention = t.layers[1].self_attn
        whole = attention.attention_probabilities.save()
        part = attention.attention_probabilities[0, 2, -1, :4].save()
        rows = attention.attention_head_outputs[:, 1:5, [0, 3]].save()
        outputs = attention.attention_head_outputs.save()
        stepped = t.layers[1].layer_output[:, ::3, 5].save()
        stream = t.layers[1].layer_output.save()
        last = t.layers[1].layer_output.at("last").save()
    assert np.array_equal(part, whole[0, 2, -1, :4])
    assert np.array_equal(rows, outputs[:, 1:5][:, :, [0, 3]])
    assert np.array_equal(stepped, stream[:, ::3, 5])
    assert np.array_equal(last, stream[:, -1:])


def test_several_layers_are_one_array(tiny):
    with tiny.trace(TEXT) as t:
        every = t.layers[:].layer_output.save()
        some = t.layers[1:].mlp.mlp_output[:, -1].save()
        one = t.layers[2].layer_output.save()
    assert every.shape == (3, 1, len(t.ids), 32)
    assert np.array_equal(every[2], one)
    assert some.shape == (2, 1, 32)


def test_the_models_own_tree_works_inside_the_block_and_not_outside(tiny):
    with tiny.trace(TEXT):
        stream = tiny.layers[1].layer_output.save()
        tiny.layers[0].mlp.mlp_output *= 0.5
    assert stream.shape[-1] == 32
    with pytest.raises(RuntimeError, match="with model.trace"):
        tiny.layers[1].layer_output.save()
    with pytest.raises(RuntimeError, match="with model.trace"):
        tiny.layers[1].layer_output = 0


def test_reading_changes_no_bit(tiny_path):
    for numerics in ("exact", "fast"):
        model = phidias.Model(tiny_path, numerics=numerics)
        ids = model.encode(TEXT)
        plain = model.engine.open(prompt_tokens=len(ids)).append(ids, outputs="all")
        with model.trace(ids) as t:
            logits = t.logits.save()
            for name, reasons in model.support().items():
                if reasons is None:
                    t.read(name.replace("layers.", "layers[*].", 1))
        assert np.array_equal(logits[0], plain)


def test_what_is_saved_is_an_array_of_its_own(tiny):
    with tiny.trace(TEXT) as t:
        stream = t.layers[0].layer_output.save()
        with pytest.raises(RuntimeError, match="not there yet"):
            stream.numpy()
        assert "not run yet" in repr(stream)
    array = stream.numpy()
    assert np.shares_memory(array, np.from_dlpack(stream))
    assert np.shares_memory(array, np.asarray(stream))
    kept = array.copy()
    logits_of(tiny, TEXT)
    gc.collect()
    assert np.array_equal(array, kept)
    assert array.flags.writeable


def test_torch_takes_it_without_a_copy(tiny):
    torch = pytest.importorskip("torch")
    with tiny.trace(TEXT) as t:
        stream = t.layers[0].layer_output.save()
        t.layers[0].layer_output += torch.ones(32)
    tensor = torch.from_dlpack(stream)
    assert tensor.data_ptr() == stream.numpy().ctypes.data


def test_an_ablated_head_is_the_same_at_three_places(tiny):
    outputs = []
    for name in ("attention_head_outputs", "attention_premix"):
        with tiny.trace(TEXT) as t:
            getattr(t.layers[1].self_attn, name)[:, :, 2] = 0
            outputs.append(t.layers[1].self_attn.attention_output.save())
    with tiny.trace(TEXT) as t:
        t.layers[1].self_attn.attention_probabilities[:, 2] = 0
        outputs.append(t.layers[1].self_attn.attention_output.save())
    assert np.array_equal(outputs[0], outputs[1]) and np.array_equal(outputs[0], outputs[2])


def test_assignments_mean_what_numpy_means(tiny):
    random = np.random.default_rng(1)
    with tiny.trace(TEXT) as t:
        before = t.layers[1].layer_output.before.save()
        n = len(t.ids)
        vector = random.normal(size=32).astype(np.float32)
        column = random.normal(size=(n - 2)).astype(np.float32)
        t.layers[1].layer_output[:, -1] += vector
        t.layers[1].layer_output[:, 0] *= 3
        t.layers[1].layer_output[0, 2:, 7] = column
        t.layers[1].layer_output[:, 1, [3, 5]] = 2.5
        t.layers[1].layer_output -= 0.25
        after = t.layers[1].layer_output.save()
    expected = before.numpy().copy()
    expected[:, -1] += vector
    expected[:, 0] *= 3
    expected[0, 2:, 7] = column
    expected[:, 1, [3, 5]] = 2.5
    expected -= np.float32(0.25)
    assert np.array_equal(after, expected)
    assert t.touched == [1, 1, n - 2, 1, n]


def test_a_value_kept_in_a_variable_can_be_added_to(tiny):
    with tiny.trace(TEXT) as t:
        stream = t.layers[1].layer_output
        stream += 1
        before, after = stream.before.save(), stream.save()
    assert np.array_equal(before + np.float32(1), after)
    assert len(t.touched) == 1


def test_a_place_cannot_be_assigned_to_another(tiny):
    with tiny.trace(TEXT) as t:
        with pytest.raises(TypeError, match="save it in a run before"):
            t.layers[1].layer_output = t.layers[0].layer_output


def test_an_edit_leaves_earlier_positions_alone(tiny):
    plain = logits_of(tiny, TEXT)
    with tiny.trace(TEXT) as t:
        t.layers[0].layer_output[:, 6] += 1
        logits = t.logits.save()
    assert np.array_equal(logits[:, :6], plain[:, :6])
    assert (np.abs(logits[:, 6:] - plain[:, 6:]).max(-1) > 1e-4).all()


def test_hidden_keys_are_masked(tiny):
    with tiny.trace(TEXT) as t:
        t.layers[1].self_attn.attention_scores[..., 2] = phidias.hidden
        pattern = t.layers[1].self_attn.attention_probabilities.save()
    assert (pattern[:, :, 3:, 2] == 0).all()
    assert np.allclose(pattern[:, :, 3:].sum(-1), 1)


@pytest.mark.parametrize("name", [n for n, i in INFOS.items() if i.standard and i.writable])
def test_every_writable_value_is_live_and_writing_it_back_changes_nothing(tiny, name):
    ids = tiny.encode(TEXT)
    path = name if INFOS[name].module == "model" else f"layers[1].{name}"
    plain = logits_of(tiny, ids)
    with tiny.trace(ids) as t:
        value = t.read(path)
    with tiny.trace(ids) as t:
        t[path] = value
        same = t.logits.save()
    assert np.array_equal(same, plain)
    with tiny.trace(ids) as t:
        if name == "input_ids":
            t[path] = np.roll(value, 1)
        elif name == "attention_mask":
            t.attention_mask[:, 2] = 0
        else:
            random = np.random.default_rng(3)
            t[path] = random.uniform(0.1, 1, value.shape).astype(np.float32)
        moved = t.logits.save()
    assert np.abs(moved - plain).max() > 1e-3


def test_what_is_derived_cannot_be_written(tiny):
    for name in ("next_token_probs", "input_size"):
        with pytest.raises(phidias.InvalidArgumentError, match="logits|input_ids"):
            with tiny.trace(TEXT) as t:
                t[name] = 0


def test_an_operand_of_the_wrong_shape_is_told_with_its_place(tiny):
    with pytest.raises(phidias.InvalidArgumentError) as caught:
        with tiny.trace(TEXT) as t:
            t.layers[1].layer_output += np.ones(31)
    assert "layer_output" in str(caught.value)


def test_a_function_sees_live_rows_and_what_it_writes_counts(tiny):
    seen = []

    def double_the_last(x, where):
        seen.append((x.shape, where.name, where.layer, where.position, where.tokens))
        x[:, -1] *= 2

    with tiny.trace(TEXT) as t:
        t.layers[1].mlp.mlp_output.edit(double_the_last)
        before, after = t.layers[1].mlp.mlp_output.before.save(), t.layers[1].mlp.mlp_output.save()
    n = len(t.ids)
    assert seen == [((1, n, 32), "layers.1.mlp.mlp_output", 1, 0, t.ids)]
    assert np.array_equal(after[:, -1], 2 * before[:, -1])
    assert np.array_equal(after[:, :-1], before[:, :-1])


def test_what_a_function_returns_takes_the_place_of_the_rows(tiny):
    with tiny.trace(TEXT) as t:
        t.layers[1].layer_output.edit(lambda x: -x)
        before, after = t.layers[1].layer_output.before.save(), t.layers[1].layer_output.save()
    assert np.array_equal(after, -before)


def test_functions_on_patterns_see_query_by_query(tiny):
    def blind_head_two(x, where):
        assert x.shape == (1, 4, 1, where.position + 1) or x.shape[:3] == (1, 4, 1)
        x[:, 2] = 0

    outputs = []
    with tiny.trace(TEXT) as t:
        t.layers[1].self_attn.attention_probabilities.edit(blind_head_two)
        outputs.append(t.layers[1].self_attn.attention_output.save())
    with tiny.trace(TEXT) as t:
        t.layers[1].self_attn.attention_probabilities[:, 2] = 0
        outputs.append(t.layers[1].self_attn.attention_output.save())
    assert np.array_equal(*outputs)


def test_a_view_that_escapes_keeps_its_numbers_and_touches_nothing(tiny):
    kept = []
    with tiny.trace(TEXT) as t:
        t.layers[0].layer_output.edit(lambda x: kept.append((x, x[0, 1:3].T)))
        value = t.layers[0].layer_output.save()
        logits = t.logits.save()
    array, part = kept[0]
    assert np.array_equal(array, value)
    array[...] = 7
    assert (part == 7).all()
    assert np.array_equal(logits, logits_of(tiny, TEXT))
    assert np.array_equal(array, np.full_like(array, 7))


def test_an_exception_in_a_function_ends_the_trace_with_it(tiny):
    calls = []

    def fails(x):
        calls.append(1)
        raise ZeroDivisionError("in the function")

    with pytest.raises(ZeroDivisionError, match="in the function"):
        with tiny.trace(TEXT) as t:
            t.layers[:].layer_output.edit(fails)
    assert calls == [1]
    assert logits_of(tiny, TEXT).shape[-1] == 260


def test_a_function_cannot_use_the_engine_that_runs_it(tiny):
    with pytest.raises(phidias.InvalidArgumentError, match="callback"):
        with tiny.trace(TEXT) as t:
            t.layers[0].layer_output.edit(lambda x: tiny.generate("x", max_new_tokens=1) and None)


def test_generated_positions_are_reported_once_each(tiny):
    with tiny.trace(TEXT, generate=6) as t:
        stream = t.layers[1].layer_output.save()
        pattern = t.layers[1].self_attn.attention_probabilities.save()
    n = len(t.ids)
    assert stream.shape == (1, n + 5, 32) and pattern.shape == (1, 4, n + 5, n + 5)
    assert t.tokens == tiny.generate(TEXT, max_new_tokens=6, stop_ids=[]).ids
    with tiny.trace(t.ids + t.tokens[:-1]) as whole:
        again = whole.layers[1].layer_output.save()
    assert np.array_equal(stream, again)


def test_steering_at_decode_touches_the_generated_rows_alone(tiny):
    vector = np.linspace(-1, 1, 32)
    with tiny.trace(TEXT, generate=5, edits=phidias.steer(1, vector, 4, at="decode")) as t:
        before, after = t.layers[1].layer_output.before.save(), t.layers[1].layer_output.save()
    n = len(t.ids)
    assert t.touched == [4]
    assert np.array_equal(before[:, :n], after[:, :n])
    assert np.allclose(after[:, n:] - before[:, n:], 4 * vector, atol=1e-5)


def test_chunks_change_no_bit(tiny):
    whole = logits_of(tiny, TEXT)
    for chunk in (1, 3, 7):
        assert np.array_equal(logits_of(tiny, TEXT, chunk=chunk), whole)


def test_patching_every_position_gives_the_clean_logits(tiny):
    clean, corrupt = tiny.encode("clean text"), tiny.encode("other bits")
    with tiny.trace(clean) as t:
        stream, logits = t.layers[1].layer_output.save(), t.logits.save()
    assert np.array_equal(
        logits_of(tiny, corrupt, edits=phidias.patch("layers[1].layer_output", stream)), logits
    )
    half = phidias.patch("layers[1].layer_output", stream, {9: 9})
    assert np.array_equal(logits_of(tiny, corrupt, edits=half)[0, -1], logits[0, -1]) is False


def test_skipping_hands_the_stream_through(tiny):
    with tiny.trace(TEXT) as t:
        tiny.skip_layers(0, -2)
        enters, leaves = t.layers[2].layer_input.save(), t.layers[1].layer_output.save()
        embeddings = t.token_embeddings.save()
    assert np.array_equal(enters, embeddings) and np.array_equal(leaves, embeddings)
    with tiny.trace(TEXT) as t:
        t.layers[1].skip_with(np.ones(32))
        leaves = t.layers[1].layer_output.save()
    assert (leaves.numpy() == 1).all()


def test_ragged_batches_are_lists_and_pad_to_one_array(tiny):
    prompts = ["a", "longer text"]
    with tiny.trace(prompts) as t:
        stream = t.layers[1].layer_output.save()
        last = t.next_token_probs.save()
        pattern = t.layers[1].self_attn.attention_probabilities.save()
    assert [one.shape for one in stream] == [(1, 1, 32), (1, 11, 32)]
    for prompt, one in zip(prompts, stream):
        with tiny.trace(prompt) as alone:
            expected = alone.layers[1].layer_output.save()
        assert np.array_equal(one, expected)
    left, right = stream.padded("left"), stream.padded("right")
    assert left.shape == right.shape == (2, 11, 32)
    assert np.array_equal(left[0, -1], stream[0][0, 0]) and (left[0, :-1] == 0).all()
    assert np.array_equal(right[0, 0], stream[0][0, 0]) and (right[0, 1:] == 0).all()
    assert last.padded().shape == (2, 260)
    assert pattern.padded().shape == (2, 4, 11, 11)
    with pytest.raises(TypeError, match="padded"):
        stream.numpy()


def test_a_plan_says_what_a_run_would_take(tiny):
    t = tiny.trace(TEXT, edits={"value": "layers[2].attention_scores", "op": "scale", "by": 2})
    n = len(t.ids)
    t.layers[:].layer_output.save()
    plan = t.plan()
    assert plan.bytes == 3 * n * 32 * 4
    assert [entry.shape for entry in plan.entries] == [[1, n, 32]] * 3
    assert plan.explicit_layers == [2]


def test_too_much_is_refused_with_the_figure(tiny):
    with pytest.raises(phidias.CapacityExceededError, match=str(13 * 32 * 4)):
        with tiny.trace(TEXT, max_bytes=1000) as t:
            t.layers[0].layer_output.save()


def test_a_trace_that_fails_in_its_block_does_not_run(tiny):
    calls = []
    with pytest.raises(KeyError):
        with tiny.trace(TEXT) as t:
            t.layers[0].layer_output.edit(calls.append)
            raise KeyError
    assert calls == []
    with tiny.trace(TEXT) as t:
        pass
    with pytest.raises(RuntimeError, match="has run"):
        t.layers[0].layer_output.save()


def test_edits_are_data_with_one_format(tiny):
    edits = phidias.Edits(
        [
            phidias.steer(1, np.arange(32), 4, at="decode", keep_norm=True),
            phidias.zero(tiny.layers[1].self_attn.attention_head_outputs[:, :, 1]),
            phidias.clamp("layers[1].mlp_neurons[neuron=3]", 0, 0.05),
            phidias.noise("token_embeddings[at=1:3]", 0.5, seed=9),
            phidias.hide("layers[0].attention_scores[key=1]"),
            phidias.uniform("layers[0].attention_probabilities[head=0]"),
            phidias.skip_layers(0, 1),
            phidias.project_out("layers[2].layer_output", np.eye(32)[:2]),
            phidias.Edit.make(tiny.layers[0].self_attn.attention_keys[:, 0, 2], "scale", coefficient=-1)
            .qualified(scope="call", queries="4:", order=2),
        ]
    )
    text = edits.to_json()
    again = phidias.Edits.from_json(text)
    assert again == edits and again.to_json() == text
    assert json.loads(text)[0]["keep_norm"] is True
    run = dict(generate=4)
    assert np.array_equal(
        logits_of(tiny, TEXT, edits=edits, **run), logits_of(tiny, TEXT, edits=again, **run)
    )
    line = phidias.Edits.from_line("layers[1].mlp.mlp_output *= 0.5 @ last")
    assert np.array_equal(
        logits_of(tiny, TEXT, edits=line), logits_of(tiny, TEXT, edits=["layers[1].mlp_output[at=last] *= 0.5"])
    )
    with pytest.raises(TypeError, match="no data"):
        phidias.Edits([phidias.Edit.function("logits", print)]).to_json()


def test_a_broken_edit_names_itself(tiny):
    with pytest.raises(phidias.InvalidArgumentError) as caught:
        phidias.Edits.from_json('[{"value": "layers[1].layer_output", "op": "sharpen"}]')
    assert caught.value.item == "/0/op"


def test_conditions_and_subspaces(tiny):
    with tiny.trace(TEXT) as t:
        stream = t.layers[1].layer_output.save()
    probe = stream[0, 4] / np.linalg.norm(stream[0, 4])
    threshold = float((stream[0] @ probe).max()) - 1e-3
    edit = phidias.Edit.make("layers[1].layer_output", "zero").qualified(when=(probe, threshold))
    with tiny.trace(TEXT, edits=edit) as t:
        after = t.layers[1].layer_output.save()
    fires = (stream[0] @ probe) > threshold
    assert fires.any() and not fires.all()
    assert np.array_equal((after[0] == 0).all(-1), fires)
    with tiny.trace(TEXT, edits=phidias.project_out("layers[1].layer_output", probe)) as t:
        after = t.layers[1].layer_output.save()
    assert np.abs(after[0] @ probe).max() < 1e-4
    rest = stream[0] - np.outer(stream[0] @ probe, probe)
    assert np.allclose(after[0], rest, atol=1e-4)


@pytest.mark.parametrize("variant", ["mini-4k", "medium-4k", "mini-128k", "phi-4-mini", "phi-4"])
def test_values_are_the_references(reference, variant):
    folder = reference / "models" / variant
    model = phidias.Model(folder, numerics="exact")
    for path in sorted((folder / "values").glob("len*.safetensors")):
        golden = load_file(path)
        ids = golden["input_ids"][0].tolist()
        with model.trace(ids) as t:
            saved = {name: t.read(name) for name in golden}
        for name, expected in golden.items():
            tolerance = 2e-5 * (1 if "probabilities" in name else np.abs(expected).max())
            if "scores" in name:
                shown = expected > -1e38
                assert np.array_equal(saved[name] > -1e38, shown)
                tolerance = 2e-5 * np.abs(expected[shown]).max()
                assert np.abs(saved[name][shown] - expected[shown]).max() <= tolerance, name
            else:
                assert np.abs(saved[name] - expected).max() <= tolerance, name


@pytest.mark.parametrize("variant", ["mini-4k", "phi-4-mini"])
def test_edits_are_the_references(reference, variant):
    folder = reference / "models" / variant
    model = phidias.Model(folder, numerics="exact")
    golden = load_file(folder / "edits" / "edits.safetensors")
    edits = json.loads((folder / "cases.json").read_text())["edits"]
    plain = logits_of(model, edits["ids"])
    for case in edits["cases"]:
        logits = logits_of(model, edits["ids"], edits=case["json"])
        expected = golden[f"logits.{case['name']}"]
        assert np.abs(logits - expected).max() <= 2e-5 * np.abs(expected).max(), case["name"]
        before = case["unchanged_before"]
        assert np.array_equal(logits[:, :before], plain[:, :before]), case["name"]
