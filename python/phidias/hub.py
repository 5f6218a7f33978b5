"""Models by name: in the hub cache, or fetched into it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from . import _core
from .errors import NotFoundError
from .progress import Bar


def pull(
    name: str,
    revision: str | None = None,
    progress: bool | Callable[[str, int, int], Any] = False,
) -> str:
    """Downloads a model (``owner/name``, ``owner/name:part of a .gguf name``) into the hub cache, where
    it is not there yet, and returns its path. ``progress``: True for a bar, or a function of (file,
    bytes, of) that returns False to stop."""
    if progress is False:
        return _core.pull(name, revision)
    if progress is not True:
        function = progress
        return _core.pull(name, revision, lambda file, n, of: function(file, n, of) is not False)
    bars: dict[str, Bar] = {}

    def tell(file: str, done: int, of: int) -> bool:
        if file not in bars:
            close()
            bars[file] = Bar(file, "B")
        return bars[file](done, of)

    def close() -> None:
        for bar in bars.values():
            bar.close()

    try:
        return _core.pull(name, revision, tell)
    finally:
        close()


def find(name: str | os.PathLike[str]) -> str:
    """The path of a model: as given where it exists, else by its name in the hub cache."""
    path = os.fspath(name)
    if os.path.exists(path):
        return path
    try:
        return _core.find_cached_model(path)
    except ValueError:
        raise NotFoundError(
            "there is no such file or folder; a model of a hub is named owner/name, and "
            "phidias.pull() downloads it",
            file=path,
        ) from None
    except NotFoundError as error:
        raise NotFoundError(
            f"there is no such file or folder, and in the hub cache: {error.message}; "
            "phidias.pull() downloads a model",
            file=path,
        ) from None
