"""Images: shown in answers, in traces and in steps, from wherever they come."""

import json

import numpy as np
import phidias
import pytest
from phidias.images import png
from safetensors.numpy import load_file


@pytest.fixture(scope="module")
def folder(reference):
    return reference / "models" / "phi3-vision"


@pytest.fixture(scope="module")
def seeing(folder):
    return phidias.Model(folder, numerics="exact")


def case(folder, name):
    """The ids, the image files and the reference's tokens of a prompt."""
    cases = json.loads((folder / "cases.json").read_text())
    prompt = next(one for one in cases["prompts"] if one["name"] == name)
    ids = [token for token, count in prompt["ids_as_runs"] for _ in range(count)]
    files = [folder / cases["images"][number]["file"] for number in prompt["images"]]
    return ids, files, load_file(folder / "generate.safetensors")[f"{name}.tokens"].tolist()


@pytest.mark.parametrize("name", ["wide", "two"])
def test_an_answer_about_images_is_the_references(seeing, folder, name):
    ids, files, expected = case(folder, name)
    assert seeing.info.vision
    answer = seeing.generate(ids, images=files, max_new_tokens=12, stop_ids=[])
    assert answer.ids == expected
    streamed = seeing.stream(ids, images=files, max_new_tokens=12, stop_ids=[])
    assert [event.token.id for event in streamed if event.token] == expected


def test_a_trace_sees_the_features_where_embeddings_would_be(seeing, folder):
    ids, files, _ = case(folder, "gray")
    image = seeing.encode_image(files[0])
    values = load_file(folder / "values" / "gray.safetensors")
    with seeing.trace(ids, images=[image]) as t:
        entering, logits = t.layers[0].layer_input.save(), t.logits.save()
    shown = np.flatnonzero(np.array(ids) == -1)
    assert len(shown) == image.tokens and image.features.shape == (image.tokens, 64)
    assert np.array_equal(entering[0, shown], image.features)
    at = values["positions"]
    assert np.allclose(entering[0, at], values["merged_embeddings"], atol=1e-4)
    assert np.abs(logits[0, at] - values["logits"]).max() <= 2e-5 * np.abs(values["logits"]).max()


def test_the_tower_can_be_looked_into_and_changed(seeing, folder):
    file = folder / "images" / "gray.png"
    plain = seeing.encode_image(file)
    paths = ["vision.layers[*].block_output", "vision.image_features"]
    image, found = seeing.trace_image(file, paths)
    assert np.array_equal(image.features, plain.features)
    assert np.array_equal(found[paths[1]].reshape(plain.features.shape), plain.features)
    assert found[paths[0]].shape[0] == 2 and found[paths[0]].shape[-1] == 32
    changed, _ = seeing.trace_image(
        file, paths[1], edits=phidias.zero("vision.layers[0].block_output")
    )
    assert not np.array_equal(changed.features, plain.features)
    with pytest.raises(ZeroDivisionError):
        broken = phidias.Edit.function("vision.patch_embeddings", lambda x: 1 / 0)
        seeing.trace_image(file, paths[1], edits=broken)


def test_a_sequence_shows_images_too(seeing, folder):
    ids, files, expected = case(folder, "wide")
    image = seeing.encode_image(files[0])
    sequence = seeing.engine.open(prompt_tokens=len(ids), images=[image])
    assert int(sequence.append(ids).argmax()) == expected[0]


def test_images_come_as_files_bytes_and_pixels(seeing, folder):
    file = folder / "images" / "tiny.png"
    image = seeing.encode_image(file)
    assert np.array_equal(seeing.encode_image(file.read_bytes()).features, image.features)
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)

    class Pillow:
        def save(self, buffer, format):
            buffer.write(png(pixels))

    from_pixels = seeing.encode_image(pixels)
    assert (from_pixels.width, from_pixels.height) == (60, 40)
    assert np.array_equal(seeing.encode_image(Pillow()).features, from_pixels.features)
    with pytest.raises(ValueError, match="height, width, 3"):
        seeing.encode_image(np.ones((4, 4)))


def test_features_are_read_only_and_outlive_their_image(seeing, folder):
    features = seeing.encode_image(folder / "images" / "gray.png").features
    with pytest.raises(ValueError, match="read-only"):
        features[0, 0] = 1
    assert np.isfinite(features).all()


def test_what_cannot_be_shown_is_told(seeing, tiny, folder, tmp_path):
    image = folder / "images" / "gray.png"
    with pytest.raises(phidias.UnsupportedError):
        tiny.generate("x", images=[image])
    with pytest.raises(FileNotFoundError):
        seeing.encode_image(tmp_path / "none.png")
    broken = tmp_path / "broken.png"
    broken.write_bytes(image.read_bytes()[:200])
    with pytest.raises(phidias.CorruptError) as caught:
        seeing.encode_image(broken)
    assert caught.value.file == str(broken)
    with pytest.raises(phidias.InvalidArgumentError):
        seeing.generate([1, -2, 5], images=[image])


def test_telling_of_tiles_can_end_the_work(seeing):
    pixels = np.random.default_rng(5).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    with pytest.raises(phidias.CancelledError):
        seeing.encode_image(pixels, progress=lambda done, of: False)
    told = []
    seeing.encode_image(pixels, progress=lambda done, of: told.append((done, of)) or True)
    assert told and all(done <= of for done, of in told)


def test_tags_stand_for_images_in_text(tiny, seeing):
    """By the tokenizer of another model, since the reference's small one has none."""
    from phidias import _core
    from phidias.images import with_tags

    image = seeing.encode_image(np.full((8, 8, 3), 200, np.uint8))
    text = with_tags("what is it?", 1)
    assert text == "<|image_1|>\nwhat is it?" and with_tags(text, 1) == text
    ids = _core.encode_with_images(tiny.tokenizer, text, [image])
    assert ids == image.tokens * [-1] + list(b"\nwhat is it?")
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    prompt = phidias.chat_prompt(tiny.tokenizer, tiny.chat_template, messages, images=[image])
    assert "<|image_1|>\nu" in prompt.text and prompt.ids.count(-1) == image.tokens
    with pytest.raises(phidias.InvalidArgumentError, match="image_2"):
        _core.encode_with_images(tiny.tokenizer, "<|image_1|><|image_2|>", [image])


def test_the_towers_values_hang_on_the_model(seeing, tiny, folder):
    layers = seeing.vision.layers
    assert len(layers) == seeing.info.vision_layers > 0
    assert layers[-1].block_output.path == f"vision.layers[{len(layers) - 1}].block_output"
    assert layers[:].block_output.path == "vision.layers[*].block_output"
    assert {"layers", "patch_embeddings", "image_features"} <= set(dir(seeing.vision))
    assert "vision" in dir(seeing) and "vision" not in dir(tiny) and not hasattr(tiny, "vision")
    assert seeing.vision.support() == dict.fromkeys(
        ("patch_embeddings", "merged_patches", "image_features")
    )
    file = folder / "images" / "gray.png"
    path = "vision.layers[0].block_output"
    _, by_path = seeing.trace_image(file, path)
    _, by_value = seeing.trace_image(file, [layers[0].block_output, layers[0].block_output[:, :2]])
    assert np.array_equal(by_value[path], by_path[path])
    with pytest.raises(IndexError, match="no layer 99"):
        layers[99]
    with pytest.raises(AttributeError, match="skipped"):
        layers[0].skip()
