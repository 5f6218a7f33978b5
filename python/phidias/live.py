"""Live runs: code that looks at a value and decides what comes next::

    def body(m):
        x = yield m.layers[8].layer_output      # the run stops here; x is live
        if x[0, -1] @ probe > 0:
            x[0, -1] += v
        y = yield m.layers[9].layer_output      # x is written back, on to the next value

    model.run("The Eiffel Tower is in", body)
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from .edits import Edit
from .values import INFOS, Node, Root, Value

if TYPE_CHECKING:
    from .model import Model

Body = Callable[["Live"], Generator[Value, NDArray[np.float32], None]]

_ORDER = {name: i for i, name in enumerate(INFOS)}
_PATTERNS = ("attention_scores", "attention_probabilities")
# They are there one row at a time, and for rows that are asked for.
_OUTPUTS = ("final_norm_output", "lm_head_output", "logits")


class Live(Root):
    """What a live run's code is given: the tree of values, and where the run is."""

    def __init__(self, model: Model, step: int, position: int, tokens: list[int]) -> None:
        self._model = model
        self.step = step
        """0 in the pass of the prompt, then counted on for every generated token."""
        self.position = position
        """Absolute, of the pass's first row."""
        self.tokens = tokens
        """Of the sequence, up to the pass's last row."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(Node(self, "", "model"), name)

    def __getitem__(self, path: str) -> Value:
        return Value(self, _core.ValueRef.parse(path))

    def project_on_vocab(self, hidden: Any) -> NDArray[np.float32]:
        """Logits of vectors of the residual stream; does not disturb the run."""
        return self._model.project_on_vocab(hidden)

    def _size(self, name: str) -> int:
        return self._model._size(name)


class Driver:
    """Leads a body through the passes of a run: a new generator for each pass.

    It has a function at every value; a gate lets the one through that the body waits for.
    """

    def __init__(self, model: Model, body: Body) -> None:
        self._model = model
        self._body = body
        self._gate = _core.Gate()
        self._generator: Generator[Value, NDArray[np.float32], None] | None = None
        self._wanted: Value | None = None
        self._passed = (-1, -1)  # layer and place in it
        self._end = 0
        self._step = -1

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
        return edits

    def finish(self) -> None:
        """The pass is over: what the body still waits for has not come."""
        if self._wanted is not None:
            self._refuse(self._wanted, "the pass is over without it")

    def _begin(self, array: NDArray[np.float32], where: _core.Where) -> None:
        self.finish()
        self._step += 1
        self._passed = (-1, -1)
        self._end = where.position + where.rows
        live = Live(self._model, self._step, where.position, list(where.tokens))
        self._generator = self._body(live)
        self._resume(None)

    def _visit(self, array: NDArray[np.float32], where: _core.Where) -> None:
        name = where.name.rpartition(".")[2]
        if name in _OUTPUTS and where.position + where.rows < self._end:
            return
        self._passed = self._place(name, where.layer)
        self._resume(array)

    def _resume(self, array: NDArray[np.float32] | None) -> None:
        """Gives the body what it has waited for, and takes what it waits for next."""
        assert self._generator is not None
        self._wanted = None
        self._gate.close()
        try:
            value = self._generator.send(array)  # type: ignore[arg-type]
        except StopIteration:
            return
        self._check(value)
        self._wanted = value
        self._gate.wait_for(value._ref)

    def _check(self, value: Value) -> None:
        if not isinstance(value, Value):
            self._refuse(value, "a body yields values, such as m.layers[8].layer_output")
        info = value.info
        if value._ref.many_layers or value._ref.is_part:
            self._refuse(value, "wait for the whole value of one layer and index the array")
        if info.name in _PATTERNS:
            self._refuse(value, "patterns come query by query: use .edit(function) in a trace")
        if not info.writable or info.layout == "Tokens":
            self._refuse(value, "it is derived, and not there to be waited for")
        if (reason := self._model.support(layer=0).get(info.name)) is not None:
            self._refuse(value, reason)
        if self._place(info.name, value._ref.layer or 0) <= self._passed:
            self._refuse(value, "the run has passed it already")

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
