"""Pictures: pages that need nothing else."""

import html.parser
import importlib.util

import numpy as np
import phidias
import pytest
from phidias import display


class Page(html.parser.HTMLParser):
    """Tags that are open at the end, cells, and addresses of other things."""

    def __init__(self, text):
        super().__init__()
        self.open, self.cells, self.outside = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.outside += [v for k, v in attributes if k in ("src", "href")]
        if tag not in ("meta", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag != "rect":
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "td":
            self.cells.append(data)


def test_a_heat_map_is_a_whole_page(tmp_path):
    numbers = np.array([[0.5, -1.0], [np.nan, 0.25]])
    picture = display.heat_map(numbers, columns=["<b>", "&"], title="a < b", corner="layer")
    path = picture.save(tmp_path / "map.html")
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert not page.open and not page.outside
    assert page.cells == ["nan", "0.25", "0.50", "-1.00"]  # layer 0 is the lowest
    assert "&lt;b&gt;" in text and "rgb(178,50,40)" in text and "<title>a &lt; b" in text
    with pytest.raises(ValueError, match="matrix"):
        display.heat_map(np.ones(3))


def test_patterns_show_themselves(tiny):
    with tiny.trace("abc") as t:
        pattern = t.layers[0].self_attn.attention_probabilities.save()
        part = t.layers[0].self_attn.attention_probabilities[:, 1].save()
        cut = t.layers[0].self_attn.attention_probabilities[..., 0].save()
        stream = t.layers[0].layer_output.save()
    assert pattern._repr_html_().count("<svg") == 4
    assert "a \u2192 a: 1.000" in pattern._repr_html_()
    assert stream._repr_html_() is None and cut._repr_html_() is None
    assert "head 1" in part._repr_html_() and part._repr_html_().count("<svg") == 1
    one = display.attention_pattern(part.numpy(), ["a", "b", "c"], heads=[1])
    assert one.panels[0].title == "head 1"
    with pytest.raises(ValueError, match="2 tokens"):
        display.attention_pattern(pattern, ["a", "b"])


def test_the_likeliest_tokens_of_layers(tiny, tmp_path):
    lens = phidias.logit_lens(tiny, ["abc", "de"])
    picture = display.plot_topk_tokens(lens, tiny, k=2, file=tmp_path / "top.html")
    assert len(picture.panels) == 2
    best = int(lens[1, -1].argmax())
    shown = phidias.texts.token_text(tiny, best)
    assert picture.panels[1].texts[0][0] == shown
    assert f"({best})" in picture.panels[1].tips[0][0]
    assert not Page((tmp_path / "top.html").read_text()).open
    ids = display.plot_topk_tokens(lens[1, -1], tiny.tokenizer, k=3, use_token_ids=True)
    assert ids.panels[0].texts[0][0] == str(best) and len(ids.panels[0].texts[0]) == 3


def test_a_lens_can_be_kept(tiny, tmp_path):
    lens = tiny.lens("a b", layers=[0, -1], topk=2)
    page = Page(lens.save(tmp_path / "lens.html").read_text())
    assert lens.layers == [0, 2] and len(page.cells) == 6 and not page.open
    assert lens.prompt_texts == ["a", "\u2423", "b"]


def test_bars_are_as_long_as_their_numbers():
    panel = display.bars({"a": 2.0, "b": -1.0, "c": 0.0}).panels[0]
    assert [len(text) for _, text in panel.texts] == [40, 20, 0]
    assert panel.shades[:, 0].tolist() == [1, -0.5, 0]


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_picture_files_are_drawn(tmp_path):
    pictures = {
        "map": display.heat_map(np.eye(3), title="a table"),
        "bars": display.bars({"a": 2.0, "b": -1.0}),
        "pattern": display.attention_pattern(np.tril(np.ones((5, 4, 4))), list("abcd")),
    }
    for name, picture in pictures.items():
        assert picture.save(tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert "<svg" in picture.save(tmp_path / f"{name}.svg").read_text()


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_bars_are_drawn_as_long_as_their_numbers():
    (axes,) = display._drawn(display.bars({"a": 2.0, "b": -1.0})).axes
    assert [bar.get_width() for bar in axes.patches] == [2, -1]
    assert [text.get_text() for text in axes.texts] == ["2.000", "-1.000"]


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is not None, reason="matplotlib is installed")
def test_without_matplotlib_the_way_out_is_told(tmp_path):
    with pytest.raises(ImportError, match="html"):
        display.bars([1.0]).save(tmp_path / "bars.png")


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")
def test_prompts_become_a_frame(tiny):
    prompt = phidias.Prompt.from_strings("abc", {"letter": ["x", "y"]}, tiny)
    frame = display.prompts_to_df([prompt, prompt], tiny)
    assert frame[1]["letter_tokens"] == ["x", "y"] and frame[0]["prompt"] == "abc"
