"""What runs say together: which places carry a difference, which parts write an answer, what heads look
at. The work is done in the engine; results are arrays with a picture.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from .display import Picture, bars, heat_map
from .edits import edits_of
from .metrics import Metric
from .progress import Progress, told
from .texts import token_text
from .values import Value, key_of

if TYPE_CHECKING:
    from .model import Model

Floats = NDArray[np.float32]


class Pictured:
    """A result that shows itself: in a notebook, and by ``save``."""

    def picture(self) -> Picture:
        """It in colours."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Writes the picture: see :meth:`phidias.display.Picture.save`."""
        return self.picture().save(path)

    def _repr_html_(self) -> str:
        return self.picture()._repr_html_()

    def __repr__(self) -> str:
        return str(self)


# Patching and ablation.


@dataclass(frozen=True, repr=False)
class Sweep(Pictured):
    """A metric with one place at a time changed: a row for each layer, a column for each position,
    head, or a single one."""

    metric: NDArray[np.float64]
    """``[layers, columns]``."""
    clean: float
    """Of the clean text, as it is."""
    base: float
    """Of the run that is changed, with nothing changed in it."""
    value: str
    columns: list[str]
    shares: bool
    """Whether what a change brings back of the clean text is of interest, or what it takes."""

    @property
    def recovered(self) -> NDArray[np.float64]:
        """The share of the difference between base and clean that a change brings back."""
        return (self.metric - self.base) / (self.clean - self.base)

    @property
    def change(self) -> NDArray[np.float64]:
        """What a change does to the metric."""
        return self.metric - self.base

    def picture(self) -> Picture:
        title = f"{self.value}: {self.base:.3f} as it is run" + (
            f", {self.clean:.3f} in the clean text" if self.shares else ""
        )
        shown = self.recovered if self.shares else self.change
        scale = 1 if self.shares else None
        return heat_map(shown, columns=self.columns, title=title, corner="layer", scale=scale)

    def __str__(self) -> str:
        lines = ["layer " + " ".join(f"{name[:8]:>8}" for name in self.columns)]
        shown = self.recovered if self.shares else self.change
        for layer in reversed(range(len(shown))):
            lines.append(f"{layer:5} " + " ".join(f"{x:8.2f}" for x in shown[layer]))
        return "\n".join(lines)


def patch_sweep(
    model: Model,
    clean: Any,
    corrupt: Any,
    metric: Metric,
    value: str | Value = "layer_output",
    *,
    axis: str = "positions",
    window: int = 1,
    edits: Any = None,
    progress: Progress = None,
) -> Sweep:
    """Activation patching: the corrupt text with each place of a value as it is in the clean one. Only
    what a patch can change is run again.

    Args:
        metric: of logits alone. The texts have equally many tokens.
        value: of the layers, with a row for each position: ``layer_output``, ``mlp_output``, ...
        axis: one of the ``positions`` at a time, one of the ``heads``, or whole ``layers``.
        window: layers that are changed together.
        edits: of the corrupt run. Causal tracing has the same text twice, and noise here.
        progress: as runs are done: see :mod:`phidias.progress`.
    """
    ids, name = model.encode(corrupt), _name_of(value)
    run = functools.partial(
        _core.patch_sweep, model.engine, model.encode(clean), ids, name, metric.compiled(model)
    )
    return _sweep(run, model, ids, name, axis, window, edits, progress, shares=True)


def ablation_sweep(
    model: Model,
    prompt: Any,
    metric: Metric,
    value: str | Value = "attention_head_outputs",
    *,
    ablation: str = "zero",
    axis: str = "heads",
    window: int = 1,
    edits: Any = None,
    progress: Progress = None,
) -> Sweep:
    """A text with each place of a value taken out: replaced by ``zero``, or by its ``mean`` over the
    positions. Arguments as of :func:`patch_sweep`."""
    ids, name = model.encode(prompt), _name_of(value)
    run = functools.partial(
        _core.ablation_sweep, model.engine, ids, name, ablation, metric.compiled(model)
    )
    return _sweep(run, model, ids, name, axis, window, edits, progress, shares=False)


def _sweep(
    run: Callable[..., Any],
    model: Model,
    ids: list[int],
    name: str,
    axis: str,
    window: int,
    edits: Any,
    progress: Progress,
    *,
    shares: bool,
) -> Sweep:
    with told(progress, name) as tell:
        table, clean, base = run(axis=axis, window=window, edits=_data(model, edits), progress=tell)
    return Sweep(table, clean, base, name, _columns(model, ids, axis, table), shares)


def run_variations(
    model: Model,
    prompt: Any,
    variations: Sequence[Any],
    metric: Metric,
    *,
    edits: Any = None,
    progress: Progress = None,
) -> NDArray[np.float64]:
    """The metric of a text under each of some edits (or lists of them), beside what ``edits`` do to all.
    Each runs only the layers and positions that it can change; the results are those of whole runs."""
    with told(progress, "variations") as tell:
        table, _ = _core.run_variations(
            model.engine,
            model.encode(prompt),
            [[edit.data for edit in edits_of(one)] for one in variations],
            metric.compiled(model),
            edits=_data(model, edits),
            progress=tell,
        )
    return table


def _data(model: Model, edits: Any) -> list[_core.Edit]:
    return [edit.data for edit in [*model._lasting_edits, *edits_of(edits)]]


def _name_of(value: str | Value) -> str:
    """The bare name of a value of the layers, from itself, from a path, or from that name."""
    if isinstance(value, Value):
        return value.info.name
    return _core.ValueRef.parse(value).info.name if "." in value else value


def _columns(model: Model, ids: list[int], axis: str, metric: NDArray[Any]) -> list[str]:
    if axis == "positions":
        return [token_text(model, token) for token in ids]
    if axis == "layers":
        return ["all"]
    return [f"head {number}" for number in range(metric.shape[1])]


# Attribution.


@dataclass(frozen=True, repr=False)
class Attribution(Pictured):
    """How much each entry of some values matters to a metric: an estimate of what patching does."""

    clean: float
    corrupt: float
    """The metric of both texts."""
    values: dict[str, Floats]
    """By path; in the value's layout, with an axis of layers in front where there are several."""
    columns: list[str]
    """The corrupt text's tokens."""

    def __getitem__(self, value: str | Value) -> Floats:
        return self.values[key_of(value, self.values)]

    def by(self, axis: str, value: str | Value | None = None) -> Floats:
        """The sums over all axes but the layers and one: ``positions`` or ``heads`` (or a name that
        :attr:`Value.dims` has). ``[layers, that axis]``, of the one value where there is but one."""
        if value is None:
            (path,) = self.values
        else:
            path = key_of(value, self.values)
        ref = _core.ValueRef.parse(path)
        axes = ref.info.axes
        names = {"positions": ("seq", "query"), "heads": ("num_heads", "num_kv_heads", "kv_heads")}
        kept = [i for i, one in enumerate(axes) if one in names.get(axis, (axis,))]
        if not kept:
            raise ValueError(f"{path} has no {axis}; its axes are {', '.join(axes)}")
        array = self.values[path]
        if not ref.many_layers:
            array = array[None]
        others = tuple(1 + i for i in range(len(axes)) if i != kept[0])
        return np.asarray(array.sum(others), np.float32)

    def __str__(self) -> str:
        lines = [f"metric: {self.corrupt:.3f}, {self.clean:.3f} in the clean text"]
        for path in self.values:
            table = self.by("positions", path)
            lines.append(f"{path}, the places that matter most:")
            for place in np.argsort(-np.abs(table), axis=None, kind="stable")[:5]:
                layer, position = np.unravel_index(int(place), table.shape)
                whole = table.shape[1] == len(self.columns)
                name = self.columns[position] if whole else str(position)
                lines.append(f"  layer {layer:2} {name:>12} {table[layer, position]:+8.3f}")
        return "\n".join(lines)

    def picture(self) -> Picture:
        """A table of each value: layers by positions."""
        panels = []
        for path in self.values:
            table = self.by("positions", path)
            whole = table.shape[1] == len(self.columns)
            columns = self.columns if whole else [str(i) for i in range(table.shape[1])]
            one = heat_map(table, columns=columns, corner="layer").panels[0]
            panels.append(dataclasses.replace(one, title=path))
        title = f"Attribution: {self.corrupt:.3f}, {self.clean:.3f} in the clean text"
        return Picture(title, panels)


def attribute(
    model: Model,
    clean: Any,
    corrupt: Any,
    metric: Metric,
    values: str | Value | Sequence[str | Value],
    *,
    method: str = "patching",
    steps: int = 16,
    drop: bool = False,
    progress: Progress = None,
) -> Attribution:
    """Out of gradients, what putting each value of the clean text into the corrupt one would do.

    Args:
        method: ``patching`` (one gradient at the corrupt text), ``integrated`` (the mean of ``steps``
            gradients on the way to the clean one), ``star`` (AtP*: queries and keys go through the
            softmax again).
        drop: AtP*'s GradDrop: effects that cancel stay visible; one backward pass a layer.
        progress: as runs are done: see :mod:`phidias.progress`.
    """
    listed = [values] if isinstance(values, (str, Value)) else list(values)
    paths = [one if isinstance(one, str) else one.path for one in listed]
    refs = [_core.ValueRef.parse(path) for path in paths]
    ids = model.encode(corrupt)
    with told(progress, "attribution") as tell:
        entries, at_clean, at_corrupt = _core.attribute(
            model.engine,
            model.encode(clean),
            ids,
            metric.compiled(model),
            refs,
            method=method,
            steps=steps,
            drop=drop,
            progress=tell,
        )
    parts: list[list[Floats]] = [[] for _ in refs]
    for number, array in entries:
        parts[number].append(array)
    found = {
        path: np.stack(part) if ref.many_layers else part[0]
        for path, ref, part in zip(paths, refs, parts)
    }
    return Attribution(at_clean, at_corrupt, found, [token_text(model, token) for token in ids])


@dataclass(frozen=True, repr=False)
class DirectAttribution(Pictured):
    """What each part of the network adds to a logit, or to the difference of two."""

    parts: dict[str, float]
    """By name, such as ``layers.3.mlp.mlp_output``."""
    total: float
    """Of the parts."""
    logit: float
    """The model's own number; differs from the total by rounding alone."""
    title: str = ""

    def largest(self, count: int = 10) -> dict[str, float]:
        """The parts that matter most, for or against."""
        names = sorted(self.parts, key=lambda name: -abs(self.parts[name]))
        return {name: self.parts[name] for name in names[:count]}

    def picture(self) -> Picture:
        return bars(self.largest(20), title=self.title)

    def __str__(self) -> str:
        lines = [f"{name:>44} {share:+8.3f}" for name, share in self.largest().items()]
        return "\n".join([*lines, f"{'sum':>44} {self.total:+8.3f}"])


def direct_attribution(
    model: Model,
    prompt: Any,
    token: int | str,
    other: int | str | None = None,
    *,
    by_heads: bool = True,
) -> DirectAttribution:
    """The shares of a token's logit after a prompt, or with ``other`` of its lead over another: the
    final norm is held at its size, so that they add up. Tokens are ids, or texts of one token."""
    ids = [None if one is None else _token(model, one) for one in (token, other)]
    assert ids[0] is not None
    parts, total, logit = _core.direct_attribution(
        model.engine, model.encode(prompt), ids[0], ids[1], by_heads=by_heads
    )
    title = f"logit of {token!r}" + ("" if other is None else f" less that of {other!r}")
    return DirectAttribution(dict(parts), total, logit, title)


# Heads.


@dataclass(frozen=True, repr=False)
class HeadScores(Pictured):
    """How much of each head's attention is of a kind: ``scores [layers, heads]``."""

    scores: Floats
    kind: str

    def best(self, count: int = 5) -> list[tuple[int, int, float]]:
        """The heads with the highest scores: (layer, head, score)."""
        order = np.argsort(-self.scores, axis=None, kind="stable")[:count]
        places = [np.unravel_index(int(i), self.scores.shape) for i in order]
        return [(int(a), int(b), float(self.scores[a, b])) for a, b in places]

    def picture(self) -> Picture:
        return heat_map(self.scores, title=f"heads: {self.kind}", corner="layer", scale=1)

    def __str__(self) -> str:
        return "\n".join(f"layer {a:2} head {b:2}: {s:.0%}" for a, b, s in self.best(10))


def head_scores(model: Model, prompt: Any, kind: str) -> HeadScores:
    """Mean attention to the ``previous`` position, the ``first``, the ``current`` one; to an earlier
    ``duplicate`` of the token; or by ``induction`` to the one behind such an occurrence. One layer's
    pattern exists at a time."""
    return HeadScores(_core.head_scores(model.engine, model.encode(prompt), kind), kind)


def _token(model: Model, token: int | str) -> int:
    """An id from itself, or from a text that is one token: as given, or without the leading space."""
    if not isinstance(token, str):
        return int(token)
    for text in (token, token.lstrip(" ")):
        ids = model.tokenizer.encode(text, add_special=False, markers=False)
        if len(ids) == 1:
            return ids[0]
    raise ValueError(f"{token!r} is not one token of this model")
