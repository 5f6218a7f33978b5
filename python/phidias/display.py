"""Pictures: tables in colours, attention patterns, bars. A notebook shows them; ``save`` writes a page
that needs nothing else, or a picture file where matplotlib is installed.

    phidias.display.heat_map(numbers, rows, columns).save("map.html")
"""

from __future__ import annotations

import html
import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .texts import token_text

_BLUE, _RED = (24, 78, 160), (178, 50, 40)
_STYLE = (
    ".phidias table{border-collapse:collapse}"
    ".phidias td,.phidias th{padding:2px 6px;border:1px solid #dde;text-align:left;"
    "font:12px ui-monospace,monospace;white-space:pre}"
    ".phidias th{background:#f4f6fa;color:#111;position:sticky;top:0}"
    ".phidias figure{display:inline-block;margin:0 1em 1em 0;vertical-align:top}"
    ".phidias figcaption{font:12px system-ui,sans-serif;color:#456}"
)


@dataclass(frozen=True)
class Panel:
    """A matrix to be coloured: 0 is white, 1 is blue, -1 is red."""

    shades: NDArray[np.float64]
    rows: list[str]
    columns: list[str]
    texts: list[list[str]] | None = None
    """In the cells; None: cells without text, drawn as small squares."""
    tips: list[list[str]] | None = None
    """Shown over a cell."""
    title: str = ""
    corner: str = ""
    """What the rows are."""
    lengths: NDArray[np.float64] | None = None
    """Of bars, one a row: what a picture file has in place of cells."""


@dataclass(frozen=True)
class Picture:
    """One or several panels under a title."""

    title: str
    panels: list[Panel] = field(default_factory=list)

    def _repr_html_(self) -> str:
        heading = f"<h3>{html.escape(self.title)}</h3>" if self.title else ""
        panels = "".join(_table(p) if p.texts is not None else _squares(p) for p in self.panels)
        return f'<div class="phidias"><style>{_STYLE}</style>{heading}{panels}</div>'

    def page(self) -> str:
        """A page of HTML that needs nothing from elsewhere."""
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>'
            f"{html.escape(self.title)}</title><style>body{{font:14px/1.4 system-ui,sans-serif;"
            f"margin:2em;color:#111}}</style></head><body>{self._repr_html_()}</body></html>\n"
        )

    def save(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Writes it: ``.html`` as a page; ``.png``, ``.svg`` and ``.pdf`` by matplotlib, where that is
        installed."""
        target = pathlib.Path(path)
        if target.suffix in (".html", ".htm"):
            target.write_text(self.page(), encoding="utf-8")
        else:
            _drawn(self).savefig(target, bbox_inches="tight", dpi=150)
        return target

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(p.rows)}x{len(p.columns)}" for p in self.panels)
        return f"<Picture {self.title!r}: {sizes}; save('name.html') writes it>"


# What pictures are made of.


def heat_map(
    numbers: Any,
    rows: Sequence[Any] | None = None,
    columns: Sequence[Any] | None = None,
    *,
    texts: Sequence[Sequence[str]] | None = None,
    tips: Sequence[Sequence[str]] | None = None,
    title: str = "",
    corner: str = "",
    scale: float | None = None,
    upward: bool = True,
) -> Picture:
    """A matrix ``[rows, columns]`` as a table in colours: blue above 0, red below.

    Args:
        rows, columns: their names; by default numbers.
        texts: in the cells; by default the numbers.
        scale: which number has the full colour; by default the largest.
        upward: row 0 is the lowest, as layers are drawn.
    """
    array = np.asarray(numbers, np.float64)
    if array.ndim != 2:
        raise ValueError(f"a heat map is of a matrix, not of {array.shape}")
    finite = np.abs(array[np.isfinite(array)])
    full = scale or (float(finite.max()) if finite.size else 1.0) or 1.0
    digits = 2 if full >= 0.095 else 3
    cells = texts or [[f"{x:.{digits}f}" for x in row] for row in array]
    order = slice(None, None, -1) if upward else slice(None)
    panel = Panel(
        shades=np.nan_to_num(array / full)[order],
        rows=[str(r) for r in (range(len(array)) if rows is None else rows)][order],
        columns=[str(c) for c in (range(array.shape[1]) if columns is None else columns)],
        texts=[list(row) for row in cells][order],
        tips=None if tips is None else [list(row) for row in tips][order],
        corner=corner,
    )
    return Picture(title, [panel])


def attention_pattern(
    patterns: Any,
    tokens: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    *,
    title: str = "",
) -> Picture:
    """Patterns ``[heads, query, key]`` (a batch axis of 1 in front is left out; one head alone may
    come without its axis), a square for each head: queries downwards, darker is more."""
    array = np.asarray(patterns, np.float64)
    if array.ndim == 4 and len(array) == 1:
        array = array[0]
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3:
        raise ValueError(f"patterns are [heads, query, key], not {array.shape}")
    keys = [str(i) for i in range(array.shape[2])] if tokens is None else list(tokens)
    if len(keys) != array.shape[2]:
        raise ValueError(f"there are {len(keys)} tokens and {array.shape[2]} keys")
    queries = keys[len(keys) - array.shape[1] :]
    names = list(range(len(array))) if heads is None else list(heads)
    return Picture(
        title,
        [
            Panel(np.clip(one, 0, 1), queries, keys, title=f"head {name}")
            for name, one in zip(names, array)
        ],
    )


def bars(values: Mapping[Any, float] | Sequence[float], *, title: str = "", corner: str = "") -> Picture:
    """Numbers by name, each with a bar; red below 0."""
    named = dict(values.items() if isinstance(values, Mapping) else enumerate(values))
    numbers = np.asarray(list(named.values()), np.float64)
    full = float(np.abs(numbers).max(initial=0)) or 1.0
    blocks = [round(40 * abs(x) / full) * "\u2588" for x in numbers]
    panel = Panel(
        shades=np.stack([numbers / full, np.zeros_like(numbers)], 1),
        rows=[str(name) for name in named],
        columns=["", ""],
        texts=[[f"{x:.3f}", block] for x, block in zip(numbers, blocks)],
        corner=corner,
        lengths=numbers,
    )
    return Picture(title, [panel])


def plot_topk_tokens(
    next_token_probs: Any,
    tokenizer: Any,
    k: int = 4,
    title: str | None = None,
    use_token_ids: bool = False,
    file: str | os.PathLike[str] | None = None,
    save_html: bool = True,
    height: int = 300,
    width: int = 400,
) -> Picture:
    """The ``k`` likeliest tokens of each layer, of probabilities ``[prompts, layers, vocab]``,
    ``[layers, vocab]`` or ``[vocab]``: nnterp's picture.

    Args:
        tokenizer: a model, its tokenizer, or one of transformers.
        file: also write it; with ``save_html`` as a page beside a picture file.
        height, width: are nnterp's; a table has the size of its texts.
    """
    array = np.asarray(next_token_probs, np.float64)
    array = array.reshape((1,) * (3 - array.ndim) + array.shape) if array.ndim < 3 else array
    panels = []
    for number, layers in enumerate(array):
        best = np.argsort(-layers, axis=-1, kind="stable")[:, :k]
        shades = np.take_along_axis(layers, best, -1)
        shown = [[str(i) if use_token_ids else token_text(tokenizer, int(i)) for i in row] for row in best]
        tips = [
            [f"{token_text(tokenizer, int(i))} ({i}) {p:.4f}" for i, p in zip(row, ps)]
            for row, ps in zip(best, shades)
        ]
        panels.append(
            Panel(
                shades=shades[::-1],
                rows=[str(layer) for layer in range(len(layers))][::-1],
                columns=[str(rank + 1) for rank in range(best.shape[1])],
                texts=shown[::-1],
                tips=tips[::-1],
                title="" if len(array) == 1 else f"prompt {number}",
                corner="layer",
            )
        )
    picture = Picture(title or f"The {k} likeliest tokens", panels)
    if file is not None:
        target = picture.save(file)
        if save_html and target.suffix != ".html":
            picture.save(target.with_suffix(".html"))
    return picture


def prompts_to_df(prompts: Sequence[Any], tokenizer: Any = None) -> Any:
    """Prompts with their targets as a pandas frame, a column each; with a tokenizer, their tokens
    too."""
    try:
        import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise ImportError("a data frame needs pandas: `pip install pandas`") from None
    columns: dict[int, dict[str, Any]] = {}
    for number, prompt in enumerate(prompts):
        column: dict[str, Any] = {"prompt": prompt.prompt}
        column |= {f"{name}_string": texts for name, texts in prompt.target_strings.items()}
        if tokenizer is not None:
            for name, ids in prompt.target_tokens.items():
                column[f"{name}_tokens"] = [token_text(tokenizer, i) for i in ids]
        columns[number] = column
    return pandas.DataFrame.from_dict(columns)


# How they are written.


def _colour(shade: float) -> tuple[int, int, int]:
    share = min(1.0, abs(shade)) if math.isfinite(shade) else 0.0
    end = _BLUE if shade >= 0 else _RED
    red, green, blue = (round(255 + share * (channel - 255)) for channel in end)
    return red, green, blue


def _style(shade: float) -> str:
    text = "#fff" if abs(shade) > 0.5 else "#111"
    return f"background:rgb{_colour(shade)};color:{text}".replace(" ", "")


def _table(panel: Panel) -> str:
    assert panel.texts is not None
    head = "".join(f"<th>{html.escape(name)}</th>" for name in panel.columns)
    if not any(panel.columns):
        head = ""
    lines = []
    for r, (name, texts) in enumerate(zip(panel.rows, panel.texts)):
        cells = "".join(
            f'<td style="{_style(float(panel.shades[r, c]))}"'
            + (f' title="{html.escape(panel.tips[r][c])}"' if panel.tips else "")
            + f">{html.escape(text)}</td>"
            for c, text in enumerate(texts)
        )
        lines.append(f"<tr><th>{html.escape(name)}</th>{cells}</tr>")
    top = f"<tr><th>{html.escape(panel.corner)}</th>{head}</tr>" if head or panel.corner else ""
    return f"<figure><table>{top}{''.join(lines)}</table>{_caption(panel)}</figure>"


def _squares(panel: Panel) -> str:
    rows, columns = panel.shades.shape
    pixels = max(160, min(480, 10 * max(rows, columns)))
    rectangles = []
    for r, c in zip(*np.nonzero(np.abs(panel.shades) >= 0.004)):
        shade = float(panel.shades[r, c])
        colour = "#184ea0" if shade > 0 else "#b23228"
        tip = f"{panel.rows[r]} \u2192 {panel.columns[c]}: {shade:.3f}"
        rectangles.append(
            f'<rect x="{c}" y="{r}" width="1" height="1" fill="{colour}" '
            f'fill-opacity="{min(1.0, abs(shade)):.3f}"><title>{html.escape(tip)}</title></rect>'
        )
    height = round(pixels * rows / columns)
    return (
        f'<figure><svg viewBox="0 0 {columns} {rows}" width="{pixels}" height="{height}" '
        'shape-rendering="crispEdges"><rect width="100%" height="100%" fill="#f4f6fa"/>'
        f"{''.join(rectangles)}</svg>{_caption(panel)}</figure>"
    )


def _caption(panel: Panel) -> str:
    return f"<figcaption>{html.escape(panel.title)}</figcaption>" if panel.title else ""


def _drawn(picture: Picture) -> Any:
    """The same as a figure of matplotlib's."""
    try:
        from matplotlib import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
            colors,
            figure,
        )
    except ImportError:
        raise ImportError(
            "picture files are drawn by matplotlib: `pip install matplotlib`, or save as .html"
        ) from None
    across = min(4, len(picture.panels))
    down = -(-len(picture.panels) // across)
    widths = [
        6.0 if p.lengths is not None else 4.0 if p.texts is None else 0.9 * len(p.columns)
        for p in picture.panels
    ]
    heights = [0.3 * len(p.rows) + 0.8 if p.texts is not None else 4.0 for p in picture.panels]
    size = (across * max(2.5, *widths), down * max(1.5, *heights))
    drawing = figure.Figure(figsize=size, layout="constrained")
    if picture.title:
        drawing.suptitle(picture.title)
    ends = [tuple(channel / 255 for channel in end) for end in (_RED, (255, 255, 255), _BLUE)]
    colour_map = colors.LinearSegmentedColormap.from_list("phidias", ends)
    grid = drawing.subplots(down, across, squeeze=False).ravel()
    for axes in grid[len(picture.panels) :]:
        axes.set_visible(False)
    for axes, panel in zip(grid, picture.panels):
        axes.set_title(panel.title, fontsize=9)
        axes.set_ylabel(panel.corner, fontsize=8)
        if panel.lengths is not None:
            places = range(len(panel.rows))
            colours = [ends[0] if x < 0 else ends[2] for x in panel.lengths]
            texts = [text[0] for text in panel.texts or ()]
            axes.bar_label(axes.barh(places, panel.lengths, color=colours), texts, fontsize=7, padding=2)
            axes.set_yticks(places, panel.rows, fontsize=7)
            axes.margins(x=0.3, y=0.01)
            axes.invert_yaxis()
            continue
        axes.imshow(panel.shades, cmap=colour_map, vmin=-1, vmax=1, aspect="auto")
        axes.set_xticks(range(len(panel.columns)), panel.columns, rotation=60, fontsize=7)
        axes.set_yticks(range(len(panel.rows)), panel.rows, fontsize=7)
        for r, texts in enumerate(panel.texts or ()):
            for c, text in enumerate(texts):
                ink = "white" if abs(panel.shades[r, c]) > 0.5 else "black"
                axes.text(c, r, text, ha="center", va="center", fontsize=7, color=ink)
    return drawing
