"""Control vectors: directions of the residual stream that steer a model, out of pairs of texts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from .arrays import floats
from .edits import Edit, Edits, positions_of

if TYPE_CHECKING:
    from .model import Model


class ControlVector:
    """A direction of the residual stream for each layer that has one: ``vector[12]``.

    They add, subtract and scale; ``vector.steer(4, at="decode")`` is the edits; files are GGUF, as
    repeng writes them and llama.cpp loads them (which have no place for layer 0).
    """

    def __init__(self, directions: _core.ControlVector | dict[int, Any], model_hint: str = "") -> None:
        if not isinstance(directions, _core.ControlVector):
            listed = {int(k): floats(v).tolist() for k, v in directions.items()}
            directions = _core.ControlVector(listed, model_hint=model_hint)
        self._core_vector = directions

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ControlVector:
        """From a file."""
        return cls(_core.ControlVector.load(os.fspath(path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """To a file."""
        self._core_vector.save(os.fspath(path))

    @property
    def layers(self) -> list[int]:
        """That have a direction."""
        return list(self._core_vector.layers)

    @property
    def model_hint(self) -> str:
        """The type of the model that it is of."""
        return self._core_vector.model_hint

    def steer(
        self,
        factor: float = 1.0,
        *,
        layers: Iterable[int] | None = None,
        at: str | int | Sequence[int] = "all",
        keep_norm: bool = False,
    ) -> Edits:
        """The edits that add it, ``factor`` times, to what leaves its layers, or some of them."""
        chosen = self.layers if layers is None else list(layers)
        some = self if layers is None else ControlVector({n: self[n] for n in chosen}, self.model_hint)
        edits = some._core_vector.edits(factor, at=positions_of(at), keep_norm=keep_norm)
        return Edits(map(Edit, edits))

    def __getitem__(self, layer: int) -> NDArray[np.float32]:
        array: NDArray[np.float32] = self._core_vector[layer]
        return array

    def __len__(self) -> int:
        return len(self._core_vector)

    def __mul__(self, factor: float) -> ControlVector:
        return ControlVector({n: factor * self[n] for n in self.layers}, self.model_hint)

    __rmul__ = __mul__

    def __neg__(self) -> ControlVector:
        return self * -1

    def __add__(self, other: ControlVector) -> ControlVector:
        sums = {n: self[n] for n in self.layers}
        for n in other.layers:
            sums[n] = sums[n] + other[n] if n in sums else other[n]
        return ControlVector(sums, self.model_hint)

    def __sub__(self, other: ControlVector) -> ControlVector:
        return self + -other

    def __reduce__(self) -> Any:
        return ControlVector, ({n: self[n] for n in self.layers}, self.model_hint)

    def __repr__(self) -> str:
        layers = self.layers
        which = f"layers {layers[0]} to {layers[-1]}" if layers else "no layers"
        return f"ControlVector({which})"


def contrast(
    model: Model, pairs: Iterable[tuple[Any, Any]], *, method: str = "pca_diff"
) -> ControlVector:
    """The control vector of pairs of texts, (more of it, less of it), from the streams at their last
    tokens: the ``mean`` of the differences, or their first principal component (``pca_diff``)."""
    if method not in ("mean", "pca_diff"):
        raise ValueError(f"method is {method!r}; mean and pca_diff are known")
    ids = [(model.encode(more), model.encode(less)) for more, less in pairs]
    return ControlVector(_core.contrast(model.engine, ids, mean=method == "mean"))
