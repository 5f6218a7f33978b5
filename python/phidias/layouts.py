"""Layouts: what the axes of values are.

    value.layout is phidias.layouts.Residual; value.dims == ["batch", "seq", "hidden_size"]
    isinstance(array, phidias.layouts.Residual)      # its rank, and the kind of its numbers
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _core


class Layout(type):
    """The kind of layouts: each is a class without instances of its own, whose ``isinstance`` asks
    an array for its rank and for the kind of its numbers, and for nothing else."""

    dims: tuple[str, ...]
    """The names of the axes, outermost first."""
    kinds: str
    """Of the numbers, as numpy's ``dtype.kind``: ``f`` floats, ``iu`` whole numbers."""

    def __instancecheck__(cls, array: Any) -> bool:
        shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
        if shape is None or dtype is None:
            return False
        name = str(dtype).removeprefix("torch.")
        kind = "f" if name == "bfloat16" else np.dtype(name).kind
        return len(shape) == len(cls.dims) and kind in cls.kinds

    def __str__(cls) -> str:
        return cls.__name__

    def __repr__(cls) -> str:
        return f"{cls.__name__} [{' '.join(cls.dims)}]"


def _layouts() -> dict[str, Layout]:
    # Picks are experts, by number, and their weights.
    whole = {"Tokens": "iu", "Size": "iu", "Picks": "iuf", "Blocks": "iu"}
    found: dict[str, Layout] = {}
    for info in _core.value_infos():
        name = info.layout
        about = {"dims": tuple(info.axes), "kinds": whole.get(name, "f"), "__doc__": " ".join(info.axes)}
        found.setdefault(name, Layout(name, (), about))
    return found


LAYOUTS: dict[str, Layout] = _layouts()
"""All of them, by name."""


def __getattr__(name: str) -> Layout:
    if name in LAYOUTS:
        return LAYOUTS[name]
    raise AttributeError(f"there is no layout {name}; there are {', '.join(LAYOUTS)}")


def __dir__() -> list[str]:
    return [*LAYOUTS, "LAYOUTS", "Layout"]
