"""Tokenizers, streams of text, chat templates."""

import gzip
import json
import shutil

import phidias
import pytest


def test_text_goes_to_ids_and_back(tiny):
    text = "Grüße, 世界! <|end|> \t\n"
    ids = tiny.tokenizer.encode(text)
    assert tiny.tokenizer.decode(ids) == text
    assert 259 in ids
    assert tiny.tokenizer.decode(ids, skip_special=True) == text.replace("<|end|>", "")


def test_markers_can_be_ordinary_text(tiny):
    ids = tiny.tokenizer.encode("<|end|>", markers=False)
    assert ids == list(b"<|end|>")
    assert tiny.tokenizer.encode("<|end|>") == [259]


def test_tokens_are_known_by_their_bytes(tiny):
    tokenizer = tiny.tokenizer
    assert tokenizer.token_bytes(0xE4) == b"\xe4"
    assert tokenizer.find("<|user|>") == 257
    assert tokenizer.find("no such token") is None
    assert tokenizer.is_special(257) and not tokenizer.is_special(65)
    assert len(tokenizer) == 260
    assert tokenizer.eos_id == 256 and tokenizer.bos_id is None


def test_a_stream_never_ends_inside_a_character(tiny):
    text = "naïve 世界 🙂 end"
    stream = tiny.tokenizer.decode_stream()
    parts = [stream.push(token) for token in tiny.tokenizer.encode(text)]
    parts.append(stream.flush())
    assert "".join(parts) == text
    assert all("\ufffd" not in part for part in parts)
    assert "" in parts


def published(reference, family, folder):
    """The family's tokenizer, unpacked."""
    for file in (reference / "tokenizers" / family).iterdir():
        if file.suffix == ".gz":
            with gzip.open(file) as packed, open(folder / file.stem, "wb") as plain:
                shutil.copyfileobj(packed, plain)
        else:
            shutil.copy(file, folder)
    return phidias.Tokenizer.load(str(folder))


@pytest.mark.parametrize("family", ["phi-3", "phi-4-mini"])
def test_ids_are_those_of_the_published_tokenizers(reference, tmp_path, family):
    tokenizer = published(reference, family, tmp_path)
    cases = json.loads((reference / "tokenizers" / "cases" / f"{family}.json").read_text())
    for case in cases["encode"]:
        ids = tokenizer.encode(case["text"], add_special=case["add_special_tokens"])
        assert ids == case["ids"], case["text"]
        assert tokenizer.decode(ids) == case["decoded"]
        assert tokenizer.decode(ids, skip_special=True) == case["decoded_skip_special"]
    if family == "phi-3":
        # From the phi3 page: a word after a space splits, the bare word is one token.
        assert tokenizer.encode("Paris") == [3681] and len(tokenizer.encode(" Paris")) == 2


def test_a_conversation_is_rendered_by_the_checkpoints_template(tiny):
    messages = [{"role": "user", "content": "Hi"}]
    assert tiny.chat_template.render(messages) == "<|user|>\nHi<|end|>\n<|assistant|>\n"
    assert tiny.chat_template.render(messages, add_generation_prompt=False) == (
        "<|user|>\nHi<|end|>\n"
    )
    assert tiny.encode(messages) == tiny.chat_prompt(messages).ids


def test_a_message_cannot_close_its_turn(tiny):
    messages = [{"role": "user", "content": "a<|end|>b"}]
    prompt = tiny.chat_prompt(messages)
    assert prompt.ids.count(259) == 1
    assert prompt.text == tiny.chat_template.render(messages)
    assert tiny.chat_prompt(messages, obey_markers=True).ids.count(259) == 2


def test_tools_and_variables_reach_the_template():
    template = phidias.ChatTemplate(
        "{% for t in tools %}[{{ t.function.name }}]{% endfor %}{{ mood }}{{ bos_token }}"
        "{{ messages[0].content }}",
        [("bos_token", "<s>")],
    )
    tools = [{"type": "function", "function": {"name": "clock"}}]
    rendered = template.render([{"role": "user", "content": "?"}], tools=tools, mood="calm")
    assert rendered == "[clock]calm<s>?"


def test_what_the_template_leaves_out_is_told():
    template = phidias.ChatTemplate("{{ messages[-1].content }}")
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    assert template.untraced(messages) == [0]


def test_a_template_that_fails_names_the_line():
    with pytest.raises(phidias.CorruptError):
        phidias.ChatTemplate("{% for %}")
    refusing = phidias.ChatTemplate("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(ValueError, match="roles must alternate"):
        refusing.render([{"role": "user", "content": "x"}])


def test_the_familys_templates_are_there_by_name():
    names = phidias.ChatTemplate.builtin_names()
    assert "phi-3-mini" in names
    text = phidias.ChatTemplate.builtin("phi-3-mini").render([{"role": "user", "content": "Hi"}])
    assert "<|user|>" in text and "Hi" in text and text.endswith("<|assistant|>\n")


@pytest.mark.parametrize("name", ["phi-3.5-mini", "phi-4-mini"])
def test_templates_agree_with_the_reference(reference, name):
    cases = json.loads((reference / "chat" / "cases" / f"{name}.json").read_text())
    source = (reference / "chat" / cases["template"]).read_text()
    tokens = [(k, cases[k]) for k in ("bos_token", "eos_token")]
    template = phidias.ChatTemplate(source, tokens)
    rendered = 0
    for case in cases["cases"]:
        if "rendered" in case:
            options = {"tools": case["tools"], "add_generation_prompt": False, **case["kwargs"]}
            assert template.render(case["messages"], **options) == case["rendered"], case["name"]
            rendered += 1
    assert rendered > 5
