"""Activation datasets: what is collected is what a run reads, however the work was interrupted."""

import json

import numpy as np
import phidias
import pytest
from safetensors.numpy import load_file

TEXTS = ["first text", "a second, longer text", "third", "and a fourth one"]
READ = ["layers[1].layer_output", "layers[2].mlp.mlp_neurons", "layers[0].attention_premix"]


def live(model, text, path):
    with model.trace(text) as t:
        saved = t.read(path)
    return saved.numpy()[0].reshape(saved.shape[1], -1)


def test_slices_are_what_a_run_reads(tiny, tmp_path):
    dataset = phidias.collect(tiny, TEXTS, READ, tmp_path / "d", dtype="f32", shard_tokens=16)
    assert len(dataset) == sum(len(text) for text in TEXTS)
    assert [shard.tensor("token_ids").shape[0] for shard in dataset.shards] == [16, 16, 16, 4]
    assert dataset.values == [
        "layers.1.layer_output",
        "layers.2.mlp.mlp_neurons",
        "layers.0.self_attn.attention_premix",
    ]
    for number, text in enumerate(TEXTS):
        rows = dataset.sequence(number)
        assert dataset.token_ids[rows].tolist() == tiny.encode(text)
        assert dataset.positions[rows].tolist() == list(range(len(text)))
        for name, path in zip(dataset.values, READ):
            column = dataset[name][rows]
            assert np.array_equal(column.reshape(len(column), -1), live(tiny, text, path))
    assert np.array_equal(dataset.token_ids[[-1, 0, 17]], dataset.token_ids[:][[-1, 0, 17]])
    assert np.array_equal(dataset["layers.1.layer_output"][30], dataset["layers.1.layer_output"][:][30])
    with pytest.raises(IndexError):
        dataset.token_ids[len(dataset)]


def test_shards_are_safetensors_with_places_of_texts(tiny, tmp_path):
    phidias.collect(tiny, TEXTS, READ[:1], tmp_path, dtype="f32", shard_tokens=16)
    first = load_file(tmp_path / "shard-00000.safetensors")
    assert first["sequence_offsets"].tolist() == [0, 10, 16]
    second = load_file(tmp_path / "shard-00001.safetensors")
    assert second["sequence_offsets"].tolist() == [0, 15, 16]
    assert second["sequence"].tolist() == 15 * [1] + [2]


@pytest.mark.parametrize(("dtype", "bound"), [("bf16", 2**-8), ("f16", 2**-10), ("i8", 1 / 127)])
def test_narrow_types_are_near(tiny, tmp_path, dtype, bound):
    dataset = phidias.collect(tiny, TEXTS[:2], READ[:1], tmp_path, dtype=dtype)
    exact = live(tiny, TEXTS[1], READ[0])
    found = dataset["layers.1.layer_output"][dataset.sequence(1)]
    assert found.dtype == np.float32 and not np.array_equal(found, exact)
    assert np.abs(found - exact).max() <= bound * np.abs(exact).max()


def test_losses_are_kept_beside(tiny, tmp_path):
    dataset = phidias.collect(tiny, TEXTS, READ[:1], tmp_path, loss=True)
    ids = tiny.encode(TEXTS[2])
    with tiny.trace(ids) as t:
        logits = t.logits.save()
    rows = logits[0].astype(np.float64)
    rows -= np.log(np.exp(rows).sum(-1, keepdims=True))
    found = dataset["loss"][dataset.sequence(2)]
    assert np.isnan(found[0])
    assert np.allclose(found[1:], -rows[np.arange(len(ids) - 1), ids[1:]], atol=1e-4)


def test_shuffled_rows_are_the_same_rows(tiny, tmp_path):
    options = {"dtype": "f32", "shard_tokens": 16}
    plain = phidias.collect(tiny, TEXTS, READ[:1], tmp_path / "plain", **options)
    mixed = phidias.collect(
        tiny, TEXTS, READ[:1], tmp_path / "mixed", shuffle_tokens=64, shuffle_seed=3, **options
    )
    places = list(zip(mixed.sequences[:].tolist(), mixed.positions[:].tolist()))
    straight = list(zip(plain.sequences[:].tolist(), plain.positions[:].tolist()))
    assert places != straight and sorted(places) == straight
    order = [straight.index(place) for place in places]
    name = "layers.1.layer_output"
    assert np.array_equal(mixed[name][:], plain[name][:][order])
    with pytest.raises(IndexError, match="shuffled"):
        mixed.sequence(1)


def test_interrupted_work_goes_on_and_gives_the_same_bytes(tiny, tmp_path):
    options = {"dtype": "bf16", "shard_tokens": 16}

    def interrupt(done, total):
        assert total == 52
        if done >= 16:
            raise KeyboardInterrupt
        return True

    phidias.collect(tiny, TEXTS, READ, tmp_path / "whole", **options)
    with pytest.raises(KeyboardInterrupt):
        phidias.collect(tiny, TEXTS, READ, tmp_path / "cut", progress=interrupt, **options)
    assert 0 < len(phidias.ActivationDataset(tmp_path / "cut")) < 52
    (tmp_path / "cut" / "shard-00002.safetensors.part").write_bytes(b"half a shard")
    phidias.collect(tiny, TEXTS, READ, tmp_path / "cut", **options)
    for path in sorted((tmp_path / "whole").iterdir()):
        assert path.read_bytes() == (tmp_path / "cut" / path.name).read_bytes(), path.name


def test_edits_are_in_force_while_texts_run(tiny, tmp_path):
    edit = phidias.zero("layers[0].self_attn.attention_head_outputs[head=1]")
    dataset = phidias.collect(tiny, TEXTS, READ[0], tmp_path, edits=edit, dtype="f32")
    with tiny.trace(TEXTS[0], edits=edit) as t:
        saved = t.read(READ[0])
    assert np.array_equal(dataset["layers.1.layer_output"][dataset.sequence(0)], saved[0])


def test_a_dataset_of_other_reads_is_not_gone_on_with(tiny, tmp_path):
    phidias.collect(tiny, TEXTS[:1], READ[:1], tmp_path)
    with pytest.raises(phidias.InvalidArgumentError, match="read"):
        phidias.collect(tiny, TEXTS[:1], READ, tmp_path)
    with pytest.raises(phidias.InvalidArgumentError, match="already"):
        phidias.collect(tiny, TEXTS[:1], READ[:1], tmp_path, resume=False)
    with pytest.raises(phidias.InvalidArgumentError, match="row"):
        phidias.collect(tiny, TEXTS, ["layers[1].attention_scores"], tmp_path / "x")


def test_views_of_shards_cannot_be_written(tiny, tmp_path):
    dataset = phidias.collect(tiny, TEXTS[:1], READ[:1], tmp_path)
    view = dataset.shards[0].tensor("layers.1.layer_output")
    assert view.dtype == np.uint16
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 0


def test_batches_go_through_all(tiny, tmp_path):
    dataset = phidias.collect(tiny, TEXTS, READ[:1], tmp_path, dtype="f32", shard_tokens=16)
    parts = list(dataset.batches(7))
    assert np.array_equal(np.concatenate([p["token_ids"] for p in parts]), dataset.token_ids[:])
    assert all(len(part["layers.1.layer_output"]) <= 7 for part in parts)


def test_hostile_files_are_told(tiny, tmp_path):
    phidias.collect(tiny, TEXTS[:1], READ[:1], tmp_path)
    shard = tmp_path / "shard-00000.safetensors"
    data = shard.read_bytes()
    shard.write_bytes(data[:100])
    with pytest.raises(phidias.CorruptError):
        phidias.ActivationDataset(tmp_path)
    shard.write_bytes(data)
    index = json.loads((tmp_path / "index.json").read_text())
    index["shards"][0]["file"] = "../shard-00000.safetensors"
    (tmp_path / "index.json").write_text(json.dumps(index))
    with pytest.raises(phidias.CorruptError, match="outside"):
        phidias.ActivationDataset(tmp_path)
    with pytest.raises(phidias.NotFoundError):
        phidias.ActivationDataset(tmp_path / "none")


def test_the_arithmetic_is_told_before(tiny, tmp_path):
    dataset = phidias.collect(tiny, TEXTS, READ, tmp_path, dtype="bf16", shard_tokens=1 << 16)
    told = phidias.bytes_per_token(tiny, READ) * len(dataset)
    assert abs((tmp_path / "shard-00000.safetensors").stat().st_size - told) < 2000
