"""Edits as data: made here, composed as lists, read from and written to JSON.

An edit applies to its positions whenever they are computed; edits of one value apply in list order;
later values and, through the cache, later positions see it, earlier positions never do.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from . import _core
from .arrays import dense_floats, floats

if TYPE_CHECKING:
    from .trace import Saved
    from .values import Value

Place: TypeAlias = "Value | str | _core.ValueRef"
"""A value, or its path."""


class Hidden:
    """What is assigned to attention scores to hide a key: ``scores[..., 0] = phidias.hidden``."""

    def __repr__(self) -> str:
        return "hidden"


hidden = Hidden()


class Edit:
    """A change of a value during a run: an operation on a part of it, or a function.

    Made by assignment in a trace, by the methods of values, or by the functions of this module.
    """

    def __init__(
        self,
        core: _core.Edit | None,
        function: tuple[_core.ValueRef, Callable[[Any, Any], None]] | None = None,
        gate: _core.Gate | None = None,
    ) -> None:
        self._core_edit = core
        self._function = function
        self._gate = gate

    @classmethod
    def make(
        cls,
        value: Place,
        op: str,
        tensor: Any = None,
        second: Any = None,
        **arguments: Any,
    ) -> Edit:
        """An operation by its name (``set``, ``add``, ``scale``, ``zero``, ``steer``, ...)."""
        return cls(
            _core.Edit.make(
                ref_of(value), op, tensor=_operand(tensor), second=_operand(second), **arguments
            )
        )

    @classmethod
    def function(cls, value: Place, function: Callable[..., Any]) -> Edit:
        """``function(x)`` or ``function(x, where)`` on the live rows of the selected positions."""
        ref = ref_of(value)
        if ref.selects_within_rows:
            raise ValueError(f"a function sees whole rows: index {ref} inside of it")
        return cls(None, (ref, _adapted(function)))

    @classmethod
    def skip(cls, first: int, last: int) -> Edit:
        """These layers, both included, hand the stream through."""
        return cls(_core.Edit.skip(first, last))

    def qualified(
        self,
        *,
        scope: str | None = None,
        queries: str | Sequence[int] | None = None,
        mask: str | None = None,
        renormalize: bool | None = None,
        order: int | None = None,
        when: tuple[Any, float] | None = None,
    ) -> Edit:
        """The same with qualifiers; what is left out stays as it is.

        Args:
            scope: of keys and values: ``cache`` (what the cache holds; the default), or ``call``: a
                copy that only ``queries`` see.
            mask: of scores: ``keep`` leaves hidden entries hidden, ``lift`` lets the edit show them.
            renormalize: of probabilities: rows sum to 1 afterwards.
            order: among the edits of one value, lower first; 0 where it is not told.
            when: (probe, threshold): only where the vector's dot product with the probe exceeds it.
        """
        if self._core_edit is None:
            raise TypeError("a function has no qualifiers")
        if scope not in (None, "cache", "call") or mask not in (None, "keep", "lift"):
            raise ValueError("scope is 'cache' or 'call', mask is 'keep' or 'lift'")
        probe, threshold = (None, None) if when is None else when
        return Edit(
            self._core_edit.with_qualifiers(
                queries=queries if queries is None else positions_of(queries),
                call=None if scope is None else scope == "call",
                lift=None if mask is None else mask == "lift",
                renormalize=renormalize,
                order=order,
                probe=_operand(probe),
                threshold=threshold,
            )
        )

    def compiled(self, raised: _core.Raised) -> _core.Edit:
        """As a run takes it. Exceptions of its function are kept in ``raised``."""
        if self._core_edit is not None:
            return self._core_edit
        assert self._function is not None
        return _core.Edit.function(*self._function, raised, self._gate)

    @property
    def data(self) -> _core.Edit:
        """The plain data. Raises TypeError for a function."""
        if self._core_edit is None:
            raise TypeError("a function is no data")
        return self._core_edit

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Edit):
            return NotImplemented
        if self._core_edit is None or other._core_edit is None:
            return self is other
        return bool(self._core_edit == other._core_edit)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        if self._core_edit is None:
            raise TypeError("a function is no data: it cannot be pickled")
        return Edit, (self._core_edit,)

    def __copy__(self) -> Edit:
        return self

    def __deepcopy__(self, memo: Any) -> Edit:
        return self  # nothing of it can be changed

    def __repr__(self) -> str:
        if self._function is not None:
            return f"Edit({self._function[0]}, function)"
        return repr(self._core_edit)


class Edits(list[Edit]):
    """Edits in order. Lists add up: ``steering + ablations``."""

    def to_json(self) -> str:
        """The format that files, the command and servers share. Raises for functions."""
        return _core.edits_to_json([edit.data for edit in self])

    @classmethod
    def from_json(cls, text: str) -> Edits:
        """From that format. Tensors in files are not read; :meth:`load` reads them."""
        return cls(map(Edit, _core.edits_from_json(text)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Edits:
        """From a file of that format, with the tensors in files that it names."""
        with open(path, encoding="utf-8") as file:
            return cls(map(Edit, _core.edits_from_json(file.read(), os.fspath(path))))

    @classmethod
    def from_line(cls, line: str) -> Edits:
        """From one line such as ``layers[12].layer_output += 4 * joy.gguf @ decode``."""
        return cls(map(Edit, _core.edits_from_line(line)))


def edits_of(edits: Any) -> list[Edit]:
    """A list of edits from one, several, JSON objects or lines."""
    if edits is None:
        return []
    if isinstance(edits, (Edit, str, Mapping)):
        edits = [edits]
    if hasattr(edits, "steer"):
        raise TypeError("a control vector becomes edits by steer(): edits=vector.steer(4)")
    found: list[Edit] = []
    for edit in edits:
        if isinstance(edit, Edit):
            found.append(edit)
        elif isinstance(edit, str):
            found += Edits.from_line(edit)
        elif isinstance(edit, Mapping):
            found += Edits.from_json(json.dumps([edit]))
        else:
            raise TypeError(f"{edit!r} is no edit")
    return found


# The algebra, by names.


def steer(
    layers: int | Iterable[int],
    vector: Any,
    factor: float = 1.0,
    *,
    at: str | int | Sequence[int] = "all",
    keep_norm: bool = False,
) -> Any:
    """Adds ``factor * vector [hidden]`` to what leaves a layer, at positions (``decode``, ``last``,
    ...). ``keep_norm`` restores the stream's norm. For several layers, a list of edits; the vector
    may then be ``[layers, hidden]``."""
    several = not isinstance(layers, (int, np.integer))
    numbers = [int(i) for i in np.atleast_1d(np.asarray(list(layers) if several else layers))]  # type: ignore[arg-type]
    vectors = np.broadcast_to(_operand(vector), (len(numbers), np.shape(vector)[-1]))
    positions = positions_of(at)
    edits = Edits(
        Edit.make(
            ref_of(f"layers[{layer}].layer_output").select(at=positions),
            "steer",
            one,
            coefficient=factor,
            keep_norm=keep_norm,
        )
        for layer, one in zip(numbers, vectors)
    )
    return edits if several else edits[0]


def replace(value: Place, numbers: Any) -> Edit:
    """Puts numbers in its place, broadcast from the right: another run's value, for one."""
    return Edit.make(value, "set", numbers)


def add(value: Place, numbers: Any, factor: float = 1.0) -> Edit:
    """Adds ``factor * numbers``."""
    return Edit.make(value, "add", numbers, coefficient=factor)


def scale(value: Place, factor: float) -> Edit:
    """Multiplies it."""
    return Edit.make(value, "scale", coefficient=factor)


def freeze(saved: Saved) -> Edits:
    """Holds a value (a pattern, a norm's scale) at what another run has saved of it, at the same
    places."""
    ref, dropped = saved._ref, saved._dropped
    arrays = list(saved.numpy()) if ref.many_layers else [saved.numpy()]
    layers = saved._layers if ref.many_layers else [None]
    return Edits(
        replace(ref if layer is None else ref.on_layer(layer), np.expand_dims(array, dropped))
        for layer, array in zip(layers, arrays)
    )


def zero(value: Place) -> Edit:
    """Ablates it."""
    return Edit.make(value, "zero")


def mean(value: Place, reference: Any) -> Edit:
    """Replaces it by the mean of a reference over all but its last axes."""
    return Edit.make(value, "mean", reference)


def clamp(value: Place, low: float = -np.inf, high: float = np.inf) -> Edit:
    """Keeps its entries between two numbers."""
    return Edit.make(value, "clamp", low=low, high=high)


def noise(value: Place, sigma: float, seed: int = 0) -> Edit:
    """Adds normal noise that depends on seed, position and channel alone."""
    return Edit.make(value, "noise", sigma=sigma, seed=seed)


def project_out(value: Place, directions: Any) -> Edit:
    """Removes its part along directions ``[n]`` or ``[k, n]``."""
    return Edit.make(value, "project_out", directions)


def keep_only(value: Place, directions: Any) -> Edit:
    """Removes all but its part along directions."""
    return Edit.make(value, "keep_only", directions)


def swap_subspace(value: Place, directions: Any, source: Any) -> Edit:
    """Takes its part along directions from a source."""
    return Edit.make(value, "swap_subspace", source, directions)


def low_rank(value: Place, a: Any, b: Any) -> Edit:
    """``x + b @ (a @ x)``: ``a [r, n]``, ``b [n, r]``."""
    return Edit.make(value, "lowrank", a, b)


def hide(scores: Place) -> Edit:
    """The selected keys of scores are treated as masked."""
    return Edit.make(scores, "hide")


def only(scores: Place) -> Edit:
    """All keys but the selected ones are treated as masked."""
    return Edit.make(scores, "only")


def uniform(probabilities: Place) -> Edit:
    """Equal weight on every visible key."""
    return Edit.make(probabilities, "uniform")


def skip_layers(first: int, last: int) -> Edit:
    """Layers, both ends included, hand the stream through."""
    return Edit.skip(first, last)


def patch(
    value: Place, source: Any, positions: Mapping[int, int] | Sequence[int] | None = None
) -> Edits:
    """Puts another run's value in: ``source`` is all of it as it was saved there, ``positions`` maps
    positions there to positions here (a list: the same ones; None: all)."""
    from .values import INFOS

    array = floats(source)
    info = INFOS[ref_of(value).info.name]
    axis = next(i for i, name in enumerate(info.axes) if name in ("seq", "query"))
    if positions is None:
        positions = range(array.shape[axis])
    pairs = positions.items() if isinstance(positions, Mapping) else [(p, p) for p in positions]
    return Edits(
        Edit.make(ref_of(value).select(at=[target]), "set", np.take(array, [origin], axis))
        for origin, target in pairs
    )


def change(value: Value, op: str, operand: Any, *, coefficient: float = 1.0) -> Edit:
    """The edit of an assignment: ``set``, ``add`` or ``scale`` with a number or an array, broadcast
    against the part as numpy would."""
    if isinstance(operand, Hidden):
        return Edit.make(value, "hide")
    if isinstance(operand, (int, float, np.number)):
        number = float(operand)
        if op == "scale":
            return Edit.make(value, "scale", coefficient=number)
        if op == "set" and number == 0:
            return Edit.make(value, "zero")
        return Edit.make(value, op, np.float32(number), coefficient=coefficient)
    array = floats(operand)
    return Edit.make(value, op, _with_axes(array, value), coefficient=coefficient)


def _with_axes(array: np.ndarray[Any, Any], value: Value) -> np.ndarray[Any, Any]:
    """The axes that integers have taken are put back into an operand, one long."""
    dropped = set(value._dropped)
    axes = len(value.dims)
    kept = [axis for axis in range(axes) if axis not in dropped]
    if array.ndim > len(kept):
        return array
    covered = kept[len(kept) - array.ndim :]
    if not covered:
        return array
    extents = dict(zip(covered, array.shape))
    return array.reshape([extents.get(axis, 1) for axis in range(covered[0], axes)])


def positions_of(at: str | int | Sequence[int]) -> str | list[int]:
    """Positions as the library takes them: names such as ``decode``, or a list of numbers."""
    return at if isinstance(at, str) else [int(p) for p in np.atleast_1d(np.asarray(at))]


def ref_of(value: Place) -> _core.ValueRef:
    """The place of a value or of a path."""
    if isinstance(value, str):
        return _core.ValueRef.parse(value)
    return value if isinstance(value, _core.ValueRef) else value._ref


def _operand(array: Any) -> Any:
    return None if array is None else dense_floats(array)


def _adapted(function: Callable[..., Any]) -> Callable[[Any, Any], None]:
    """Called with the array and where it is; what it returns is written into the array."""
    try:
        parameters = inspect.signature(function).parameters.values()
        takes = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
        wants_where = takes >= 2 or any(p.kind == p.VAR_POSITIONAL for p in parameters)
    except (TypeError, ValueError):  # written in C, without a signature
        wants_where = False

    def adapted(array: Any, where: Any) -> None:
        result = function(array, where) if wants_where else function(array)
        if result is not None and result is not array:
            array[...] = floats(result)

    return adapted
