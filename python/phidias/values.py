"""The tree of named values: ``model.layers[3].self_attn.attention_probabilities[:, 7]``.

A value is a place, not a moment: it exists without a run and costs nothing. Inside a trace it can
be saved and assigned to; anywhere it makes edits.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from .edits import Edit, Hidden, change
from .layouts import LAYOUTS, Layout

if TYPE_CHECKING:
    from .trace import Saved, Trace

INFOS: dict[str, _core.ValueInfo] = {info.name: info for info in _core.value_infos()}

SIZES = (
    "num_layers",
    "hidden_size",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "qk_head_dim",
    "vocab_size",
    "intermediate_size",
)
# Native modules without children of interest; their input and output are values.
_LEAVES = {
    "model": ("embed_tokens", "norm", "lm_head", "output"),
    "layers": (
        "input_layernorm",
        "post_attention_layernorm",
        "resid_attn_dropout",
        "resid_mlp_dropout",
    ),
    "layers.self_attn": ("qkv_proj", "o_proj"),
    "layers.mlp": ("gate_up_proj", "act_fn", "activation_fn", "down_proj"),
}
# Which sizes the axes have that count from 0 in every run; the others are positions.
_AXIS_SIZES = {"num_heads": "num_heads", "num_kv_heads": "num_kv_heads", "kv_heads": "num_kv_heads"}
_POSITIONS = {"seq", "query", "patch", "token"}


class Root:
    """Whatever has the tree: a model, or a trace of one."""

    def _size(self, name: str) -> int:
        raise NotImplementedError

    def _trace(self) -> Trace:
        """The trace that saves and assignments go to. Raises RuntimeError outside of one."""
        raise NotImplementedError

    def _supported(self) -> list[_core.Support]:
        """Every value, and whether the model has it."""
        raise NotImplementedError


class Value:
    """A named value of one layer, of several, or of the model; or a part of it."""

    def __init__(
        self, root: Root, ref: _core.ValueRef, dropped: tuple[int, ...] = (), moment: str = "after"
    ) -> None:
        self._root = root
        self._ref = ref
        self._dropped = dropped  # axes that an integer has taken
        self._moment = moment

    # What it is.

    @property
    def path(self) -> str:
        """Its address, the same in C++, in files and on the command line."""
        return str(self._ref)

    @property
    def info(self) -> _core.ValueInfo:
        """Layout, axes, meaning and so on."""
        return self._ref.info

    @property
    def layout(self) -> Layout:
        """Its layout, such as ``phidias.layouts.Residual``."""
        return LAYOUTS[self._ref.info.layout]

    @property
    def dims(self) -> list[str]:
        """The names of its axes."""
        return list(self._ref.info.axes)

    def __deepcopy__(self, memo: Any) -> Value:
        return self  # a place: nothing of it can be changed

    def __repr__(self) -> str:
        return f"<{self.path}: {self.layout} [{' '.join(self.dims)}]: {self.info.meaning}>"

    # Parts.

    def __getitem__(self, index: Any) -> Value:
        """A part, as numpy would index the page's layout. Lists on several axes select all their
        combinations; an axis with an integer is left out of what is saved."""
        if self._ref.is_part or self._dropped:
            raise IndexError(f"{self.path} is a part already; index the whole value once")
        axes = self.dims
        indices = _expanded(index, len(axes), self.path)
        chosen: dict[str, Any] = {}
        dropped = []
        for axis, (name, one) in enumerate(zip(axes, indices)):
            if isinstance(one, (int, np.integer)):
                dropped.append(axis)
            if isinstance(one, slice) and one == slice(None):
                continue
            if name == "batch":
                if not (isinstance(one, (int, np.integer)) and one in (0, -1)):
                    raise IndexError("the batch axis of a run is one sequence: 0 or `:`")
            elif name in _POSITIONS:
                chosen["at"] = _positions(one, self._rows)
            elif name == "key":
                chosen["keys"] = _positions(one, self._rows)
            elif name in _AXIS_SIZES:
                chosen["heads"] = _indices(one, self._root._size(_AXIS_SIZES[name]), name)
            elif axis == len(axes) - 1:
                chosen["channels"] = _indices(one, self._width(name), name)
            else:
                raise IndexError(f"axis {name} of {self.path} cannot be indexed")
        return Value(self._root, self._ref.select(**chosen), tuple(dropped), self._moment)

    def at(self, positions: str | int | Sequence[int]) -> Value:
        """The part at positions: numbers, or ``all``, ``prompt``, ``decode``, ``last``, ``2:5``."""
        return self._part(at=_position_argument(positions))

    def query(self, positions: str | int | Sequence[int]) -> Value:
        """Of a pattern: the part at queries."""
        return self.at(positions)

    def key(self, positions: str | int | Sequence[int]) -> Value:
        """Of a pattern: the part at keys."""
        return self._part(keys=_position_argument(positions))

    def head(self, *heads: int) -> Value:
        """The part of some heads."""
        return self._part(heads=list(heads))

    def neuron(self, *neurons: int) -> Value:
        """The part of some neurons; likewise of any last axis."""
        return self._part(channels=list(neurons))

    channel = neuron

    @property
    def before(self) -> Value:
        """As it is before its own edits."""
        return Value(self._root, self._ref, self._dropped, "before")

    def _part(self, **chosen: Any) -> Value:
        return Value(self._root, self._ref.select(**chosen), self._dropped, self._moment)

    def _width(self, axis: str) -> int | None:
        return self._root._size(axis) if axis in SIZES else None

    def _rows(self) -> int:
        return self._root._trace()._rows()

    # In a trace.

    def save(self) -> Saved:
        """Keeps it: the result is an array once the trace has run."""
        return self._root._trace()._save(self._ref, self._dropped, self._moment)

    def edit(self, function: Callable[..., Any]) -> None:
        """Calls ``function(x)`` or ``function(x, where)`` on the live rows whenever they are
        computed; what it writes into ``x``, or returns, is what the run goes on with."""
        self._root._trace()._record(Edit.function(self, function))

    @property
    def grad(self) -> Gradient:
        """The gradient of the trace's ``metric`` with respect to it."""
        return Gradient(self)

    def __setitem__(self, index: Any, value: Any) -> None:
        self[index]._assign(value)

    def _assign(self, value: Any) -> None:
        if isinstance(value, Value):
            if value._ref == self._ref:
                return  # what += has recorded already
            raise TypeError(
                f"{value.path} is a place, not numbers: save it in a run before, and assign that"
            )
        self._root._trace()._record(change(self, "set", value))

    def _change(self, op: str, operand: Any, sign: float = 1.0) -> Value:
        self._root._trace()._record(change(self, op, operand, coefficient=sign))
        return self

    def __iadd__(self, operand: Any) -> Value:
        return self._change("add", operand)

    def __isub__(self, operand: Any) -> Value:
        return self._change("add", operand, -1.0)

    def __imul__(self, operand: Any) -> Value:
        return self._change("scale", operand)

    def __itruediv__(self, operand: Any) -> Value:
        return self._change("scale", 1.0 / np.asarray(operand, np.float32))


class Gradient:
    """The gradient of a trace's metric at a value."""

    def __init__(self, value: Value) -> None:
        self._value = value

    def __getitem__(self, index: Any) -> Gradient:
        return Gradient(self._value[index])

    def save(self) -> Saved:
        """Keeps it: an array of the value's shape once the trace has run."""
        value = self._value
        trace = value._root._trace()
        return trace._save(value._ref, value._dropped, "gradient")

    def __repr__(self) -> str:
        return f"<gradient at {self._value.path}>"


class Node:
    """A module: its values, modules and sizes are attributes."""

    _root: Root
    _path: str
    _kind: str

    def __init__(self, root: Root, path: str, kind: str) -> None:
        object.__setattr__(self, "_root", root)
        object.__setattr__(self, "_path", path)
        object.__setattr__(self, "_kind", kind)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in SIZES:
            return self._root._size(name)
        if self._kind == "model" and name == "model":
            return self
        if self._kind == "model" and name == "layers":
            return Layers(self._root)
        if self._kind == "model" and name == "vision":
            if self._root._size("vision_layers") == 0:
                raise AttributeError("the model sees no images: it has no vision")
            return Node(self._root, "vision", "vision")
        if self._kind == "vision" and name == "layers":
            return Layers(self._root, "vision.layers")
        if self._kind == "layers" and name in ("self_attn", "mlp"):
            return Node(self._root, f"{self._path}.{name}", f"layers.{name}")
        path = f"{self._path}.{name}" if self._path else name
        if name in _LEAVES.get(self._kind, ()):
            return Node(self._root, path, "leaf")
        if (value := self._value(name, path)) is not None:
            return value
        raise AttributeError(
            f"{self._path or 'the model'} has no {name}; {near(name, self.__dir__())}"
        )

    def _value(self, name: str, path: str) -> Value | None:
        info = INFOS.get(name)
        inside = info is not None and (
            info.module == self._kind
            or self._kind == "layers" and info.module.startswith("layers.")
        )
        # Native modules: only their ends are values.
        if inside or name in ("input", "output", "logits"):
            try:
                return Value(self._root, _core.ValueRef.parse(path))
            except ValueError:
                return None
        return None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in SIZES:
            raise AttributeError(f"{name} is read-only")
        target = getattr(self, name)
        if not isinstance(target, Value):
            raise AttributeError(f"{name} is no value: it cannot be assigned")
        target._assign(value)

    def support(self) -> dict[str, str | None]:
        """Which values this module has: ``{name: None}`` where one is there, else the reason. Of a
        layer, those of its attention and MLP too."""
        kinds = [self._kind, *(("layers.self_attn", "layers.mlp") if self._kind == "layers" else ())]
        return {
            one.value.name: one.missing
            for one in self._root._supported()
            if one.value.module in kinds
        }

    def skip(self) -> None:
        """Of a layer, in a trace: it hands the stream through."""
        layer = self._layer()
        self._root._trace()._record(Edit.skip(layer, layer))

    def skip_with(self, hidden: Any) -> None:
        """Of a layer, in a trace: what leaves it is this."""
        self._layer()
        self.layer_output = hidden

    def _layer(self) -> int:
        layer = None
        if self._kind == "layers":
            layer = _core.ValueRef.parse(f"{self._path}.layer_output").layer
        if layer is None:
            raise AttributeError("layers alone can be skipped, one by one")
        return layer

    def __dir__(self) -> list[str]:
        names = [name for name, info in INFOS.items() if info.module == self._kind]
        names += _LEAVES.get(self._kind, ())
        if self._kind in ("model", "vision"):
            names.append("layers")
        if self._kind == "model" and self._root._size("vision_layers"):
            names.append("vision")
        if self._kind == "layers":
            names += ["self_attn", "mlp", "input", "output", "skip", "skip_with"]
        if self._kind == "leaf":
            names += ["input", "output"]
        else:
            names.append("support")
        return names

    def __repr__(self) -> str:
        return f"<{self._path or 'model'}: {', '.join(self.__dir__())}>"


class Layers:
    """The blocks: ``layers[3]``, ``layers[-1]``, ``layers[2:5]``, ``layers[:]``; of the model, or of
    its vision tower."""

    def __init__(self, root: Root, path: str = "layers") -> None:
        self._root = root
        self._path = path

    def __len__(self) -> int:
        return self._root._size("num_layers" if self._path == "layers" else "vision_layers")

    def __getitem__(self, index: int | slice) -> Node:
        count = len(self)
        if isinstance(index, slice):
            begin, end, step = index.indices(count)
            if step != 1:
                raise IndexError("a range of layers has no step")
            if index == slice(None):
                return Node(self._root, f"{self._path}[*]", self._path)
            return Node(self._root, f"{self._path}[{begin}:{end}]", self._path)
        layer = int(index)
        if not -count <= layer < count:
            raise IndexError(f"there is no layer {layer}; there are {count}")
        return Node(self._root, f"{self._path}[{layer % count}]", self._path)

    def __iter__(self) -> Iterator[Node]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<{len(self)} layers>"


def key_of(value: Value | str, known: Iterable[str]) -> str:
    """Which of some paths a value has, however it is spelled. Raises KeyError with those there are."""
    path = value if isinstance(value, str) else value.path
    paths = list(known)
    if path in paths:
        return path
    try:
        ref = _core.ValueRef.parse(path)
        return next(one for one in paths if _core.ValueRef.parse(one) == ref)
    except (ValueError, StopIteration):
        raise KeyError(f"{path} was not read; there are {', '.join(paths) or 'no reads'}") from None


def near(name: str, known: Iterable[str]) -> str:
    """What somebody may have meant, as an end of a sentence; else what there is."""
    names = list(known)
    found = difflib.get_close_matches(name, names, 3)
    return f"did you mean {' or '.join(found)}?" if found else f"there are {', '.join(names)}"


def value_of(root: Root, value: Value | str) -> Value:
    """A value from itself or from a path."""
    return value if isinstance(value, Value) else Value(root, _core.ValueRef.parse(value))


# Indices.


def _expanded(index: Any, axes: int, path: str) -> list[Any]:
    """One index for each axis."""
    indices = list(index) if isinstance(index, tuple) else [index]
    if any(one is None for one in indices):
        raise IndexError(f"{path} cannot be given a new axis")
    given = sum(one is not Ellipsis for one in indices)
    if given > axes:
        raise IndexError(f"{path} has {axes} axes, and {given} are indexed")
    if Ellipsis in [one for one in indices if not isinstance(one, np.ndarray)]:
        at = next(i for i, one in enumerate(indices) if one is Ellipsis)
        return indices[:at] + [slice(None)] * (axes - given) + indices[at + 1 :]
    return indices + [slice(None)] * (axes - given)


def _listed(one: Any) -> list[int]:
    array = np.asarray(one)
    if array.dtype == bool:
        array = np.flatnonzero(array)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise IndexError(f"{one!r} is no index: integers, slices and lists of integers are")
    return [int(i) for i in array]


def _positions(one: Any, rows: Callable[[], int]) -> str | list[int]:
    if isinstance(one, (int, np.integer)):
        return [int(one)]
    if isinstance(one, str):
        return one
    if isinstance(one, slice):
        if one.step not in (None, 1):
            return list(range(rows()))[one]
        begin = "" if one.start is None else str(int(one.start))
        end = "" if one.stop is None else str(int(one.stop))
        return f"{begin or '0'}:{end}"
    return _listed(one)


def _indices(one: Any, size: int | None, axis: str) -> list[int]:
    if isinstance(one, slice):
        if size is None:
            if one.start is None or one.stop is None or one.start < 0 or one.stop < 0:
                raise IndexError(f"axis {axis}: give both ends of the slice, counted from 0")
            size = one.stop
        return list(range(size))[one]
    listed = [int(one)] if isinstance(one, (int, np.integer)) else _listed(one)
    if size is None:
        return listed
    for i in listed:
        if not -size <= i < size:
            raise IndexError(f"index {i} is out of range for axis {axis} of {size}")
    return [i % size for i in listed]


def _position_argument(positions: Any) -> str | list[int]:
    if isinstance(positions, str):
        return positions
    return [int(positions)] if isinstance(positions, (int, np.integer)) else _listed(positions)


__all__ = ["INFOS", "Gradient", "Hidden", "Layers", "Node", "Value"]
