"""Live runs: code that looks at a value and decides what comes next::

    def body(m):
        x = yield m.layers[8].layer_output      # the run stops here; x is live
        if x[0, -1] @ probe > 0:
            x[0, -1] += v
        y = yield m.layers[9].layer_output      # x is written back, on to the next value
        if not y.any():
            m.stop()                            # what is left of the run is left out

    model.run("The Eiffel Tower is in", body)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from .accessors import Tree
from .edits import Edit
from .values import INFOS, Value

if TYPE_CHECKING:
    from .model import Model

Body = Callable[["Live"], Generator[Value, NDArray[np.float32], None]]

_ORDER = {name: i for i, name in enumerate(INFOS)}
_PATTERNS = ("attention_scores", "attention_probabilities")
# They are there one row at a time, and for rows that are asked for.
_OUTPUTS = ("final_norm_output", "lm_head_output", "logits")


class Live(Tree):
    """What a live run's code is given: the tree of values, and where the run is."""

    def __init__(self, model: Model, step: int, position: int, tokens: list[int]) -> None:
        self._model = model
        self.step = step
        """0 in the pass of the prompt, then counted on for every generated token."""
        self.position = position
        """Absolute, of the pass's first row."""
        self.tokens = tokens
        """Of the sequence, up to the pass's last row."""
        self.stopping = False
        """Whether stop() was called."""

    def stop(self) -> None:
        """Ends the run where the body yields next or returns: layers and tokens that are left are
        not computed."""
        self.stopping = True

    def project_on_vocab(self, hidden: Any) -> NDArray[np.float32]:
        """Logits of vectors of the residual stream; does not disturb the run."""
        return self._model.project_on_vocab(hidden)

    def get_topk_closest_tokens(self, hidden: Any, k: int = 5) -> list[dict[str, float]]:
        """The likeliest tokens of such vectors, by their texts."""
        return self._model.get_topk_closest_tokens(hidden, k)

    def _size(self, name: str) -> int:
        return self._model._size(name)

    def _supported(self) -> list[_core.Support]:
        return self._model._supported()


class Driver:
    """Leads a body through the passes of a run: a new generator for each pass.

    It has a function at every value; a gate lets the one through that the body waits for. Patterns
    come query by query, while a body sees them whole: that of a pass of several rows is looked up in
    a run on another engine, up to that layer and with what the body has written so far, and what
    the body makes of it is put in as its rows come.
    """

    def __init__(self, model: Model, body: Body, engine: _core.Engine, patterns: Iterable[int]) -> None:
        self.stopped_at: list[int] | None = None
        """The sequence's tokens, where the body has stopped the run."""
        self._model = model
        self._body = body
        self._engine = engine
        count = model.num_layers
        self._pattern_layers = sorted({int(layer) % count for layer in patterns})
        self._gate = _core.Gate()
        self._live: Live | None = None
        self._generator: Generator[Value, NDArray[np.float32], None] | None = None
        self._wanted: Value | None = None
        self._passed = (-1, -1)  # layer and place in it
        self._end = 0
        self._rows = 0
        self._step = -1
        self._written: list[Edit] = []  # in this pass, where there are patterns to be looked up
        self._patterns: dict[str, NDArray[np.float32]] = {}  # of this pass, by name

    def edits(self) -> list[Edit]:
        """What the run is given."""
        edits = [Edit(None, (_core.ValueRef.parse("token_embeddings"), self._begin))]
        absent = {one.value.name for one in _core.support(self._model._weights) if one.missing}
        for info in INFOS.values():
            if not info.writable or info.layout == "Tokens" or info.name in _PATTERNS:
                continue
            # Values of images are computed before the run.
            if info.name in absent or info.module.startswith("vision"):
                continue
            path = info.name if info.module == "model" else f"layers[*].{info.name}"
            ref = _core.ValueRef.parse(path)
            parts = [ref.select(at="last"), ref.select(at="decode")] if info.name in _OUTPUTS else [ref]
            edits += [Edit(None, (part, self._visit), self._gate) for part in parts]
        for ref in self._pattern_refs():
            edits.append(Edit(None, (ref, self._visit_pattern)))
        return edits

    def _pattern_refs(self) -> list[_core.ValueRef]:
        paths = [f"layers[{n}].self_attn.{name}" for n in self._pattern_layers for name in _PATTERNS]
        return [_core.ValueRef.parse(path) for path in paths]

    def finish(self) -> None:
        """The pass is over: what the body still waits for has not come."""
        if self._wanted is not None:
            self._refuse(self._wanted, "the pass is over without it")

    def _begin(self, array: NDArray[np.float32], where: _core.Where) -> None:
        self.finish()
        self._step += 1
        self._passed = (-1, -1)
        self._rows = where.rows
        self._end = where.position + where.rows
        self._written, self._patterns = [], {}
        self._live = Live(self._model, self._step, where.position, list(where.tokens))
        self._generator = self._body(self._live)
        if not isinstance(self._generator, Generator):
            raise TypeError("a body is a generator: `x = yield m.layers[8].layer_output`")
        self._resume(None, where)

    def _visit(self, array: NDArray[np.float32], where: _core.Where) -> None:
        name = where.name.rpartition(".")[2]
        if name in _OUTPUTS and where.position + where.rows < self._end:
            return
        self._passed = self._place(name, where.layer)
        self._resume(array, where)

    def _visit_pattern(self, array: NDArray[np.float32], where: _core.Where) -> None:
        whole = self._patterns.get(where.name)
        if whole is not None:
            rows = slice(where.position, where.position + where.rows)
            array[...] = whole[:, :, rows, : array.shape[-1]]
        elif self._wanted is not None and self._key(self._wanted) == where.name:
            self._passed = self._place(where.name.rpartition(".")[2], where.layer)
            self._resume(array, where)

    def _resume(self, array: NDArray[np.float32] | None, where: _core.Where) -> None:
        """Gives the body what it has waited for, and takes what it waits for next."""
        given = self._wanted
        while True:
            assert self._generator is not None and self._live is not None
            self._wanted = None
            self._gate.close()
            try:
                value = self._generator.send(array)  # type: ignore[arg-type]
            except StopIteration:
                value = None
            if self._live.stopping:
                self._generator.close()
                self.stopped_at = list(where.tokens)
                where.end_run()
                return
            if self._pattern_layers and given is not None and array is not None:
                self._note(given, array)
            if value is None:
                return
            self._check(value)
            if value.info.name not in _PATTERNS or self._rows == 1:
                self._wanted = value
                if value.info.name not in _PATTERNS:
                    self._gate.wait_for(value._ref)
                return
            self._passed = self._place(value.info.name, value._ref.layer or 0)
            given, array = value, self._looked_up(value)
            self._patterns[self._key(value)] = array

    def _note(self, value: Value, array: NDArray[np.float32]) -> None:
        """What the body has left of an array, for patterns that are looked up behind it."""
        self._written.append(Edit.make(value, "set", array.copy()))

    def _looked_up(self, value: Value) -> NDArray[np.float32]:
        assert self._live is not None
        trace = _core.Trace.create(self._model.side_engine(self._engine), self._live.tokens)
        for ref in self._pattern_refs():  # their layers take the same way as in the run itself
            trace.edit(_core.Edit.make(ref, "scale", coefficient=1.0))
        for edit in self._written:
            trace.edit(edit.data)
        trace.read(value._ref)
        array: NDArray[np.float32] = trace.run().take_entries()[0][3]
        return array

    def _check(self, value: Value) -> None:
        if not isinstance(value, Value):
            self._refuse(value, "a body yields values, such as m.layers[8].layer_output")
        info = value.info
        if value._ref.many_layers or value._ref.is_part:
            self._refuse(value, "wait for the whole value of one layer and index the array")
        if info.name in _PATTERNS and value._ref.layer not in self._pattern_layers:
            self._refuse(value, f"tell run() beforehand: patterns=[{value._ref.layer}]")
        if not info.writable or info.layout == "Tokens":
            self._refuse(value, "it is derived, and not there to be waited for")
        if (reason := self._model.support(layer=0).get(info.name)) is not None:
            self._refuse(value, reason)
        if self._place(info.name, value._ref.layer or 0) <= self._passed:
            self._refuse(value, "the run has passed it already")

    def _key(self, value: Value) -> str:
        return f"layers.{value._ref.layer}.self_attn.{value.info.name}"

    def _place(self, name: str, layer: int) -> tuple[int, int]:
        order = _ORDER[name]
        if INFOS[name].module == "model":
            layer = -1 if order < _ORDER["layer_input"] else self._model.info.num_layers
        return (layer, order)

    def _refuse(self, value: Any, why: str) -> None:
        """The error arises in the body, at the line that waits."""
        assert self._generator is not None
        generator, self._generator = self._generator, None
        self._wanted = None
        self._gate.close()
        name = value.path if isinstance(value, Value) else repr(value)
        generator.throw(RuntimeError(f"{name}: {why}"))
        raise RuntimeError(f"{name}: {why}")
