"""Numbers from wherever they come: lists, arrays, tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def array_of(numbers: Any) -> NDArray[Any]:
    """As an array, without a copy where they are one. Tensors of torch may have any type, lie on any
    device and need a gradient."""
    if hasattr(numbers, "detach"):
        numbers = numbers.detach().cpu()
        if str(numbers.dtype).endswith("bfloat16"):  # numpy has no such type
            numbers = numbers.float()
    return np.asarray(numbers)


def floats(numbers: Any) -> NDArray[np.float32]:
    """As float32."""
    return np.asarray(array_of(numbers), np.float32)


def dense_floats(numbers: Any) -> NDArray[np.float32]:
    """As float32, row-major and with an axis at least: what the library takes."""
    return np.ascontiguousarray(floats(numbers))
