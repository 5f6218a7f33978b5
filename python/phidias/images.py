"""Images for the models that see them, from wherever they come."""

from __future__ import annotations

import io
import os
import pathlib
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _core

Image = _core.Image


def image_file(source: Any) -> tuple[bytes, str]:
    """The bytes of an image file and a name for messages: of a path, of bytes, of an array ``[height,
    width, 3]`` of uint8, or of whatever has PIL's ``save``."""
    if isinstance(source, (str, os.PathLike)):
        path = pathlib.Path(source)
        return path.read_bytes(), str(path)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), ""
    if hasattr(source, "save"):
        buffer = io.BytesIO()
        source.save(buffer, format="PNG")
        return buffer.getvalue(), ""
    array = np.asarray(source)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3:
        raise ValueError(
            "an image is a path, the bytes of a JPEG, PNG or WebP file, a PIL image, or an array "
            f"[height, width, 3] of uint8, not {type(source).__name__}"
        )
    return png(array), ""


def png(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG file of ``[height, width, 3]``."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], 1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            chunk(b"IDAT", zlib.compress(rows.tobytes())),
            chunk(b"IEND", b""),
        ]
    )


def with_tags(text: str, count: int) -> str:
    """The text with the tags of ``count`` images in front, each on a line, where it has none."""
    if _core.image_tag(1) in text:
        return text
    return "".join(_core.image_tag(i + 1) + "\n" for i in range(count)) + text
