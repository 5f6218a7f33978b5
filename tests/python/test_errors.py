"""Errors are exceptions with a code, a message and a place."""

import json

import phidias
import pytest


def test_a_path_that_does_not_exist_is_a_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        phidias.Model(tmp_path / "nothing")
    assert isinstance(caught.value, phidias.Error)
    assert caught.value.code == "not_found"
    assert caught.value.file == str(tmp_path / "nothing")


def test_a_broken_config_names_the_file_and_the_byte(tiny_path, tmp_path):
    for file in tiny_path.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "config.json").write_text('{"model_type": ')
    with pytest.raises(phidias.CorruptError) as caught:
        phidias.Model(tmp_path)
    assert caught.value.code == "corrupt"
    assert caught.value.file.endswith("config.json")
    assert caught.value.place in str(caught.value)
    assert caught.value.message in str(caught.value)


def test_an_unknown_model_type_is_unsupported(tiny_path, tmp_path):
    for file in tiny_path.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "phi4flash"}))
    with pytest.raises(NotImplementedError, match="phi4flash") as caught:
        phidias.Model(tmp_path)
    assert caught.value.code == "unsupported"


def test_a_token_outside_the_vocabulary_is_a_value_error_with_a_place(tiny):
    with pytest.raises(ValueError) as caught:
        tiny.generate([1, 2, 100000])
    assert (caught.value.code, caught.value.item) == ("invalid_argument", "prompt")


def test_a_prompt_that_fills_the_context_exceeds_a_capacity(tiny):
    with pytest.raises(phidias.CapacityExceededError, match="256"):
        tiny.generate([5] * 256)


def test_every_code_has_its_exception():
    from phidias.errors import _BY_CODE, from_code

    for code, kind in _BY_CODE.items():
        error = from_code(code, "words", "file", "item", 7)
        assert type(error) is kind
        assert (error.code, str(error)) == (code, "file, item, at byte 7: words")


def test_an_option_that_is_unknown_is_told_with_those_that_there_are(tiny):
    with pytest.raises(TypeError, match="max_new_tokens"):
        tiny.generate("x", max_tokens=3)
    with pytest.raises(ValueError, match="float32"):
        phidias.Model("x", dtype="int4")
