"""Arrays from and to others: numpy's protocols, torch, pickles, and how long views live."""

import copy
import gc
import pickle

import numpy as np
import phidias
import pytest

TEXT = "The same bits"


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


def test_numpy_takes_saved_values_by_each_of_its_protocols(tiny):
    with tiny.trace(TEXT) as t:
        stream = t.layers[0].layer_output.save()
        with pytest.raises(RuntimeError, match="not there yet"):
            np.asarray(stream)
    array = stream.numpy()
    pointer = array.__array_interface__["data"]
    assert stream.__array_interface__["data"] == pointer
    for view in (np.asarray(stream), np.from_dlpack(stream), np.array(stream, copy=False)):
        assert view.__array_interface__["data"] == pointer
    assert np.asarray(stream, np.float64).dtype == np.float64
    view = np.asarray(stream)
    kept = array.copy()
    del array, stream, t
    gc.collect()
    assert np.array_equal(view, kept)  # the memory lives as long as any view of it


def test_a_saved_number_is_a_number(tiny):
    with tiny.trace(TEXT) as t:
        logit = t.logits[0, -1, 7].save()
        row = t.logits[0, -1].save()
    assert float(logit) == row[7] and bool(logit) and int(logit) == int(row[7])
    assert logit + 1 == row[7] + 1
    row[7] = 0
    assert row.numpy()[7] == 0
    with pytest.raises(ValueError, match="ambiguous"):
        bool(row)


def test_torch_takes_saved_values_and_writes_into_them(tiny, torch):
    with tiny.trace(TEXT) as t:
        stream = t.layers[0].layer_output.save()
        pattern = t.layers[0].self_attn.attention_probabilities[:, 2].save()
    tensor = torch.from_dlpack(stream)
    assert tensor.data_ptr() == torch.as_tensor(stream).data_ptr()
    tensor[0, 0, 0] = 42
    assert stream[0, 0, 0] == 42
    kept = tensor.clone()
    del stream, t
    gc.collect()
    assert torch.equal(tensor, kept)
    assert torch.from_dlpack(pattern).shape == pattern.shape


def test_tensors_of_any_kind_are_operands(tiny, torch):
    """Also those that numpy refuses: of bfloat16, and parameters."""
    vector = torch.linspace(-1, 1, 32)
    rounded = vector.to(torch.bfloat16)
    kept = []
    for operand in (rounded.float().numpy(), rounded, torch.nn.Parameter(rounded.float())):
        with tiny.trace(TEXT) as t:
            t.layers[1].layer_output[:, -1] += operand
            kept.append(t.layers[1].layer_output.save())
        edits = phidias.steer(1, operand, 2, at="last").qualified(when=(operand, 0.0))
        with tiny.trace(TEXT, edits=edits) as t:
            kept.append(t.layers[1].layer_output.save())
    assert all(np.array_equal(one, kept[i % 2]) for i, one in enumerate(kept))
    logits = tiny.project_on_vocab(torch.nn.Parameter(vector))
    assert np.array_equal(logits, tiny.project_on_vocab(vector.numpy()))
    metric = phidias.dot("layers[1].layer_output[at=last]", torch.nn.Parameter(vector))
    assert metric.terms == phidias.dot("layers[1].layer_output[at=last]", vector.numpy()).terms


def test_functions_may_compute_in_torch(tiny, torch):
    def halved(x):
        return torch.from_dlpack(x) / 2  # a tensor takes the place of the rows

    def halve(x):
        torch.from_dlpack(x).mul_(0.5)  # or they are changed where they lie

    with tiny.trace(TEXT) as t:
        t.layers[0].layer_output.edit(halved)
        t.layers[1].layer_output.edit(halve)
        places = [t.layers[i].layer_output for i in (0, 1)]
        values = [(place.before.save(), place.save()) for place in places]
    for before, after in values:
        assert np.array_equal(after, before / 2)


def test_live_rows_that_escape_into_torch_keep_their_numbers(tiny, torch):
    kept = []
    with tiny.trace(TEXT, generate=3) as t:
        t.layers[0].layer_output.edit(lambda x: kept.append(torch.from_dlpack(x)[0, :, :4]))
        stream = t.layers[0].layer_output.save()
    del t
    gc.collect()
    tiny.generate("other text", max_new_tokens=4, stop_ids=[])
    assert [len(one) for one in kept] == [13, 1, 1]
    assert np.array_equal(np.concatenate([one.numpy() for one in kept]), stream[0, :, :4])


def test_bf16_of_a_dataset_is_torchs_own(tiny, torch, tmp_path):
    dataset = phidias.collect(tiny, [TEXT, "more"], "layers[1].layer_output", tmp_path)
    column = dataset["layers.1.layer_output"]
    tensor = torch.from_dlpack(column.bf16(slice(0, 5)))
    assert tensor.dtype == torch.bfloat16 and tensor.shape == (5, 32)
    assert np.array_equal(tensor.float().numpy(), column[:5])
    assert np.array_equal(tensor.view(torch.int16).numpy().view(np.uint16), column.bits(slice(0, 5)))
    copied = tensor.clone()
    del dataset, column
    gc.collect()
    assert torch.equal(tensor, copied)


def test_bits_are_of_bf16_alone(tiny, tmp_path):
    dataset = phidias.collect(tiny, [TEXT], "layers[1].layer_output", tmp_path, dtype="f32")
    with pytest.raises(TypeError, match="F32"):
        dataset["layers.1.layer_output"].bits(slice(0, 2))


def test_what_is_shared_cannot_be_written():
    """Read-only arrays stay so: what they are views of is shared."""
    sae = phidias.Autoencoder(np.ones((4, 6)), np.zeros(6), np.ones((6, 4)), np.zeros(4))
    for array in (sae.W_enc, sae.b_enc, sae.W_dec, sae.b_dec):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        view = np.asarray(array)
        assert not view.flags.writeable
    kept = sae.W_dec
    del sae
    gc.collect()
    assert (kept == 1).all()


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_plans_are_copied_and_pickled(tiny, way):
    vector = np.linspace(-1, 1, 32)
    edits = phidias.Edits(
        [
            phidias.steer(1, vector, 0.3, at="decode", keep_norm=True),
            phidias.zero("layers[*].attention_head_outputs[head=2]").qualified(order=3),
            phidias.hide("layers[0].attention_scores[key=1]").qualified(when=(np.ones(3), 0.5)),
            phidias.skip_layers(1, 1),
        ]
    )
    again = way(edits)
    assert again == edits and again.to_json() == edits.to_json()
    metric = phidias.logit_diff(97, 98) - 0.5 * phidias.dot("layers[1].layer_output", vector)
    assert way(metric).terms == metric.terms
    ref = tiny["layers[1].layer_output[at=last]"]._ref
    assert way(ref) == ref
    target = phidias.repeat_prompt()
    assert way(target) == target
    control = phidias.ControlVector({1: vector}, "phi3")
    assert np.array_equal(way(control)[1], control[1]) and way(control).model_hint == "phi3"


def test_results_are_pickled(tiny):
    with tiny.trace(TEXT) as t:
        stream = t.layers[1].layer_output.save()
    again = pickle.loads(pickle.dumps(stream))
    assert type(again) is np.ndarray and np.array_equal(again, stream)
    with tiny.trace(["a", "bc"]) as t:
        streams = t.layers[1].layer_output.save()
    assert [one.shape for one in copy.deepcopy(streams)] == [(1, 1, 32), (1, 2, 32)]
    sweep = phidias.patch_sweep(tiny, "cat", "dog", phidias.logit(97))
    assert np.array_equal(pickle.loads(pickle.dumps(sweep)).metric, sweep.metric)


def test_a_function_is_no_data(tiny):
    edit = phidias.Edit.function("layers[1].layer_output", print)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(edit)
    assert copy.deepcopy([edit])[0] is edit


def test_a_model_is_pickled_by_its_place(tiny):
    again = pickle.loads(pickle.dumps(tiny))
    assert again.info.path == tiny.info.path and again.engine.options["numerics"] == "exact"
    options = {"max_new_tokens": 5, "stop_ids": []}
    assert again.generate("Once", **options).ids == tiny.generate("Once", **options).ids
    value = pickle.loads(pickle.dumps(tiny.layers[1].layer_output[:, -1]))
    assert value.path == "layers[1].layer_output[at=-1]"
