"""Sparse autoencoders: a vector as a few of many features, and edits of these in a run.

    sae = phidias.Autoencoder.load("sae.safetensors")
    features = sae.encode(stream)                                     # [..., features]
    calm = phidias.sae("layers[12].layer_output", sae, set={411: 8})  # an edit
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from .arrays import dense_floats, floats
from .edits import Edit, Place, ref_of
from .errors import InvalidArgumentError

Floats = NDArray[np.float32]


class Autoencoder:
    """Of vectors ``[n]`` with ``f`` features: ``max(0, x @ W_enc + b_enc)``, and ``features @ W_dec +
    b_dec`` brings them back. The names are SAELens'; files have them too. Immutable."""

    def __init__(
        self, W_enc: Any, b_enc: Any, W_dec: Any, b_dec: Any, *, centred: bool = False
    ) -> None:
        """From ``W_enc [n, f]``, ``b_enc [f]``, ``W_dec [f, n]``, ``b_dec [n]``. ``centred``: b_dec is
        taken off a vector before it is encoded."""
        self._core_autoencoder = _core.Autoencoder(
            np.ascontiguousarray(floats(W_enc).T),
            dense_floats(b_enc),
            dense_floats(W_dec),
            dense_floats(b_dec),
            centred=centred,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, centred: bool = False) -> Autoencoder:
        """From a safetensors file with ``W_enc``, ``b_enc``, ``W_dec`` and ``b_dec``."""
        made = cls.__new__(cls)
        made._core_autoencoder = _core.Autoencoder.load(path, centred=centred)
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """To such a file."""
        _core.save_tensors(
            path,
            {
                "W_enc": np.ascontiguousarray(self.W_enc),
                "b_enc": self.b_enc,
                "W_dec": self.W_dec,
                "b_dec": self.b_dec,
            },
        )

    @property
    def W_enc(self) -> Floats:
        """``[n, f]``. Read-only, like the others."""
        return self._core_autoencoder.encoder.T

    @property
    def b_enc(self) -> Floats:
        """``[f]``."""
        return self._core_autoencoder.encoder_bias

    @property
    def W_dec(self) -> Floats:
        """``[f, n]``: row j is the direction of feature j."""
        return self._core_autoencoder.decoder

    @property
    def b_dec(self) -> Floats:
        """``[n]``."""
        return self._core_autoencoder.decoder_bias

    @property
    def centred(self) -> bool:
        """Whether b_dec is taken off before a vector is encoded."""
        return self._core_autoencoder.centred

    @property
    def width(self) -> int:
        """Of the vectors."""
        return int(self.W_dec.shape[1])

    @property
    def features(self) -> int:
        """How many there are."""
        return int(self.W_dec.shape[0])

    def encode(self, vectors: Any) -> Floats:
        """The features ``[..., f]`` of vectors ``[..., n]``."""
        x = floats(vectors)
        if x.shape[-1:] != (self.width,):
            raise ValueError(f"vectors are [..., {self.width}], not {list(x.shape)}")
        if self.centred:
            x = x - self.b_dec
        return np.asarray(np.maximum(x @ self.W_enc + self.b_enc, 0), np.float32)

    def decode(self, features: Any) -> Floats:
        """The vectors ``[..., n]`` that features ``[..., f]`` stand for."""
        f = floats(features)
        if f.shape[-1:] != (self.features,):
            raise ValueError(f"features are [..., {self.features}], not {list(f.shape)}")
        return np.asarray(f @ self.W_dec + self.b_dec, np.float32)

    def __reduce__(self) -> Any:
        arrays = (np.array(self.W_enc), np.array(self.b_enc), np.array(self.W_dec), np.array(self.b_dec))
        return _made, (*arrays, self.centred)

    def __repr__(self) -> str:
        return f"Autoencoder({self.width} wide, {self.features} features)"


def _made(*arguments: Any) -> Autoencoder:
    *arrays, centred = arguments
    return Autoencoder(*arrays, centred=centred)


def sae(
    value: Place,
    autoencoder: Autoencoder | str | os.PathLike[str],
    *,
    set: Mapping[int, float] | None = None,
    add: Mapping[int, float] | None = None,
    scale: Mapping[int, float] | None = None,
    error: str = "keep",
) -> Edit:
    """Changes features of whole vectors of a value: ``{feature: number}`` of each kind.

    Args:
        autoencoder: itself, or the path of its file.
        error: ``keep`` leaves what the autoencoder does not see of a vector as it is; ``drop`` puts its
            reconstruction in place of the vector.
    """
    if error not in ("keep", "drop"):
        raise ValueError("error is 'keep' or 'drop'")
    if not isinstance(autoencoder, Autoencoder):
        autoencoder = Autoencoder.load(autoencoder)
    kinds = (("set", set), ("add", add), ("scale", scale))
    features = [
        (int(feature), kind, float(number))
        for kind, numbers in kinds
        for feature, number in (numbers or {}).items()
    ]
    for feature, _, _ in features:
        if not 0 <= feature < autoencoder.features:
            raise InvalidArgumentError(
                f"there is no feature {feature}; there are {autoencoder.features}", item="features"
            )
    core = autoencoder._core_autoencoder
    return Edit(_core.edit_sae(ref_of(value), core, features, keep_error=error == "keep"))
