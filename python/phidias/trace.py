"""Runs with some of their values kept and some changed::

    with model.trace("The Eiffel Tower is in the city of") as t:
        pattern = t.layers[10].self_attn.attention_probabilities.save()   # in any order
        t.layers[10].self_attn.attention_head_outputs[:, :, 7] = 0        # recorded as an edit
        t.layers[12].layer_output[:, -1] += 4 * v
        probabilities = t.next_token_probs.save()
    pattern.numpy()                                                       # filled by now

The block only records; the run takes place where it ends.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from . import _core
from .accessors import Tree
from .edits import Edit
from .errors import CancelledError, Error
from .metrics import Metric
from .progress import Progress, told
from .texts import token_text
from .values import Layers, Node

if TYPE_CHECKING:
    from .model import Model

_current: contextvars.ContextVar[Trace | None] = contextvars.ContextVar("phidias.trace")


def current_trace(model: Model) -> Trace:
    """The trace of a model whose block is open."""
    trace = _current.get(None)
    if trace is None or trace._model is not model:
        raise RuntimeError("outside of a trace nothing runs: `with model.trace(prompt) as t:`")
    return trace


class Saved(NDArrayOperatorsMixin):
    """What a trace keeps: an array once it has run.

    It owns its memory, is a numpy array in all but its type, and goes to torch and others without
    a copy: ``torch.from_dlpack(saved)``. Of a trace of several prompts it is a list of arrays:
    ``saved[i]`` is that of prompt i, ``saved.padded("left")`` all of them in one. Copied or pickled
    it is the array, or that list.
    """

    def __init__(
        self,
        ref: _core.ValueRef,
        dropped: tuple[int, ...],
        batch: bool,
        name: str,
        labels: Callable[[], list[str]],
    ) -> None:
        self._ref = ref
        self._name = name
        self._dropped = dropped
        self._batch = batch
        self._labels = labels
        self._arrays: list[NDArray[Any]] | None = None
        self._layers: list[int] = []

    def numpy(self) -> NDArray[Any]:
        """The array."""
        if self._arrays is None:
            raise RuntimeError(
                f"{self._name} is not there yet: the trace runs where its block ends"
            )
        if self._batch:
            raise TypeError("a trace of several prompts has an array for each: index it, or padded()")
        return self._arrays[0]

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """Of each prompt."""
        if self._arrays is None:
            self.numpy()
        assert self._arrays is not None
        return self._arrays

    def padded(self, side: str = "left") -> NDArray[Any]:
        """All prompts in one array ``[batch, ...]``, each filled up with zeros to the longest, in
        front (``left``, as transformers' generation has it) or behind (``right``)."""
        return padded(self.arrays, side)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = self.numpy()
        if dtype is not None and dtype != array.dtype:
            converted: NDArray[Any] = array.astype(dtype)
            return converted
        return array.copy() if copy else array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        interface: dict[str, Any] = self.numpy().__array_interface__
        return interface

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.numpy().__dlpack_device__()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [one.numpy() if isinstance(one, Saved) else one for one in inputs]
        return getattr(ufunc, method)(*plain, **options)

    def __getitem__(self, index: Any) -> Any:
        return self.arrays[index] if self._batch else self.numpy()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.numpy()[index] = value

    def __float__(self) -> float:
        return float(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __reduce__(self) -> Any:
        return (list, (self.arrays,)) if self._batch else (np.asarray, (self.numpy(),))

    def __len__(self) -> int:
        return len(self.arrays) if self._batch else len(self.numpy())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.arrays if self._batch else self.numpy())

    def __matmul__(self, other: Any) -> Any:
        return self.numpy() @ np.asarray(other)

    def __rmatmul__(self, other: Any) -> Any:
        return np.asarray(other) @ self.numpy()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.numpy(), name)

    def __repr__(self) -> str:
        if self._arrays is None:
            return f"<{self._name}, not run yet>"
        shapes = ", ".join(str(list(array.shape)) for array in self._arrays)
        return f"<{self._name} {shapes}>"

    def __str__(self) -> str:
        return repr(self) if self._arrays is None or self._batch else str(self.numpy())

    def __format__(self, form: str) -> str:
        return format(self.numpy() if self.numpy().ndim else self.numpy()[()], form)

    def _repr_html_(self) -> str | None:
        """Patterns of all queries and keys of a prompt show themselves in a notebook, head by head."""
        if self._ref.info.layout != "Pattern" or self._ref.many_layers or self._batch:
            return None
        if self._arrays is None:
            return None
        labels, array = self._labels(), self.numpy()
        if array.shape[-2:] != (len(labels), len(labels)):
            return None
        from .display import attention_pattern

        heads = self._ref.heads or None
        return attention_pattern(array, labels, heads, title=self._name)._repr_html_()

    def _fill(self, arrays: list[NDArray[Any]], layers: list[int]) -> None:
        self._arrays = arrays
        self._layers = layers


class Trace(Tree):
    """What is to be kept of a run, and changed in it. Made by :meth:`Model.trace`.

    The tree of values hangs on it as on the model: ``t.layers[3].layer_output``, ``t.logits``,
    ``t["blocks.3.hook_resid_post"]``.
    """

    def __init__(
        self,
        model: Model,
        prompts: list[list[int]],
        *,
        batch: bool,
        edits: list[Edit],
        engine: _core.Engine,
        generate: int = 0,
        chunk: int = 0,
        rope_switch: str = "reprefill",
        max_bytes: int = 8 << 30,
        images: Sequence[_core.Image] = (),
        progress: Progress = None,
    ) -> None:
        self._model = model
        self._prompts = prompts
        self._batch = batch
        self._edits = list(edits)
        self._engine = engine
        self._progress = progress
        self._generate = generate
        self._options: dict[str, Any] = {
            "generate": generate,
            "chunk": chunk,
            "rope_switch": rope_switch,
            "max_bytes": max_bytes,
            "images": list(images),
        }
        self._reads: list[tuple[Saved, _core.ValueRef, str]] = []
        self._metric: Metric | None = None
        self._tree = Node(self, "", "model")
        self._token: contextvars.Token[Trace | None] | None = None
        self._results: list[_core.Traced] = []
        self._raised = _core.Raised()
        self._stopped: list[int] | None = None

    def __repr__(self) -> str:
        prompts = f"{len(self._prompts)} prompts" if self._batch else f"{len(self.ids)} tokens"
        state = "has run" if self._results else "not run yet"
        return f"<Trace of {prompts}, {len(self._reads)} kept, {len(self._edits)} edits, {state}>"

    # The tree.

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or name in type(self).__dict__:
            object.__setattr__(self, name, value)
        else:
            setattr(self._tree, name, value)

    def __setitem__(self, path: str, value: Any) -> None:
        self[path]._assign(value)

    @property
    def layers(self) -> Layers:
        """The blocks."""
        return Layers(self)

    # What a run is told.

    def edit(self, edits: Any) -> None:
        """Adds edits that are data: one, a list, JSON objects, lines."""
        from .edits import edits_of

        for edit in edits_of(edits):
            self._record(edit)

    def read(self, path: str) -> Saved:
        """Keeps a value by its path."""
        return self[path].save()

    @property
    def metric(self) -> Metric | None:
        """What gradients are of: see :mod:`phidias.metrics`. Setting it is part of the block."""
        return self._metric

    @metric.setter
    def metric(self, metric: Metric) -> None:
        self._open()
        if not isinstance(metric, Metric):
            raise TypeError(f"{metric!r} is no metric, such as phidias.logit_diff(' yes', ' no')")
        self._metric = metric

    @property
    def ids(self) -> list[int]:
        """The ids of the prompt."""
        return self._prompts[0]

    def plan(self) -> _core.TracePlan:
        """What the run would take: shapes, bytes, layers that leave the fast path. Of several
        prompts, the first one's."""
        return self._compiled(self._prompts[0]).plan()

    def __enter__(self) -> Trace:
        if self._results:
            raise RuntimeError("a trace runs once; make another")
        self._token = _current.set(self)
        return self

    def __exit__(self, kind: Any, error: Any, place: Any) -> None:
        if self._token is not None:
            _current.reset(self._token)
            self._token = None
        if kind is None:
            self.run()

    def run(self) -> None:
        """Runs it; the end of the block does."""
        arrays: list[list[NDArray[Any]]] = [[] for _ in self._reads]
        layers: list[list[int]] = [[] for _ in self._reads]
        with told(self._progress, "tracing") as tell:
            for done, prompt in enumerate(self._prompts):
                if tell is not None and not tell(done, len(self._prompts)):
                    raise CancelledError(f"stopped with {done} prompts done")
                try:
                    traced = self._compiled(prompt).run()
                except Error:
                    self._raised.rethrow()
                    raise
                self._results.append(traced)
                parts: list[list[NDArray[Any]]] = [[] for _ in self._reads]
                layers = [[] for _ in self._reads]
                for read, _, layer, array in traced.take_entries():
                    parts[read].append(array)
                    layers[read].append(layer)
                for (saved, ref, _), part, to in zip(self._reads, parts, arrays):
                    to.append(joined(part, ref.many_layers, saved._dropped))
            if tell is not None:
                tell(len(self._prompts), len(self._prompts))
        for (saved, _, _), found, numbers in zip(self._reads, arrays, layers):
            saved._fill(found, numbers)

    # What it brought.

    @property
    def tokens(self) -> Any:
        """The ids generated, with ``generate=N``; of several prompts, a list for each. Of a live run
        that was stopped, those that had been fed to it."""
        if self._stopped is not None:
            return self._stopped
        tokens = [list(result.tokens) for result in self._finished()]
        return tokens if self._batch else tokens[0]

    @property
    def text(self) -> Any:
        """The text of these."""
        decode = self._model.decode
        return [decode(one) for one in self.tokens] if self._batch else decode(self.tokens)

    @property
    def stopped(self) -> bool:
        """Whether a live run's code has stopped it: there is nothing of it but ``tokens``."""
        return self._stopped is not None

    @property
    def touched(self) -> list[int]:
        """Positions that each edit touched, in order of the edits: of all prompts together."""
        rows = [result.rows for result in self._finished()]
        return [sum(column) for column in zip(*rows)]

    @property
    def metric_value(self) -> Any:
        """The metric's value in a run with gradients; of several prompts, a list."""
        values = [result.metric for result in self._finished()]
        return values if self._batch else values[0]

    @property
    def epochs(self) -> int:
        """2 where the sequence was run again at LongRoPE's switch."""
        return max(result.epochs for result in self._finished())

    def _stop_at(self, tokens: list[int]) -> None:
        self._stopped = tokens[len(self._prompts[0]) :]

    def _finished(self) -> list[_core.Traced]:
        if self._stopped is not None:
            raise RuntimeError("the run was stopped: what its code has kept is all there is")
        if not self._results:
            raise RuntimeError("the trace has not run: it does where its block ends")
        return self._results

    # For the tree.

    def _size(self, name: str) -> int:
        return self._model._size(name)

    def _trace(self) -> Trace:
        return self

    def _supported(self) -> list[_core.Support]:
        return self._model._supported()

    def _rows(self) -> int:
        if self._batch:
            raise IndexError("a step over positions needs one prompt")
        return len(self._prompts[0]) + max(0, self._generate - 1)

    def _record(self, edit: Edit) -> None:
        self._open()
        self._edits.append(edit)

    def _save(self, ref: _core.ValueRef, dropped: tuple[int, ...], moment: str) -> Saved:
        self._open()
        name = f"gradient at {ref}" if moment == "gradient" else str(ref)
        saved = Saved(ref, dropped, self._batch, name, self._labels)
        self._reads.append((saved, ref, moment))
        return saved

    def _open(self) -> None:
        if self._results:
            raise RuntimeError("the trace has run; what is to be kept or changed is told before")

    def _labels(self) -> list[str]:
        """The texts of the tokens that were run, of one prompt."""
        ids = [*self._prompts[0], *(self._results[0].tokens[:-1] if self._results else [])]
        return [token_text(self._model, token) for token in ids]

    def _compiled(self, prompt: list[int]) -> _core.Trace:
        trace = _core.Trace.create(self._engine, prompt, **self._options)
        for edit in self._edits:
            trace.edit(edit.compiled(self._raised))
        for _, ref, moment in self._reads:
            trace.read(ref, moment=moment)
        if any(moment == "gradient" for _, _, moment in self._reads):
            if self._metric is None:
                raise ValueError("gradients are of a metric: t.metric = phidias.logit_diff(...)")
            trace.metric(self._metric.compiled(self._model))
        return trace


def joined(
    parts: list[NDArray[Any]], many_layers: bool, dropped: tuple[int, ...]
) -> NDArray[Any]:
    """One array of a read: the axes with integers left out, layers in front."""
    arrays = [np.squeeze(part, dropped) if dropped else part for part in parts]
    return np.stack(arrays) if many_layers else arrays[0]


def padded(arrays: Sequence[NDArray[Any]], side: str = "left") -> NDArray[Any]:
    """Arrays ``[1, ...]`` of several prompts in one ``[batch, ...]``, filled up with zeros."""
    if side not in ("left", "right"):
        raise ValueError("side is 'left' or 'right'")
    shape = [max(extents) for extents in zip(*(array.shape for array in arrays))]
    whole = np.zeros([len(arrays), *shape[1:]], arrays[0].dtype)
    for row, array in zip(whole, arrays):
        ends = [
            slice(extent - own, None) if side == "left" else slice(0, own)
            for extent, own in zip(shape[1:], array.shape[1:])
        ]
        row[tuple(ends)] = array[0]
    return whole
