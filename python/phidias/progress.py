"""Long work, told while it runs.

Functions that take ``progress`` take ``True`` for a bar (tqdm's where it is installed, else a line on
stderr), or a function of (done, of) that ends the work by returning ``False``.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

Progress = bool | Callable[[int, int], Any] | None
Teller = Callable[[int, int], bool]


class Bar:
    """A bar that appears with the first step that is told."""

    def __init__(self, label: str, unit: str = "it") -> None:
        self._label = label
        self._unit = unit
        self._bar: Any = None

    def __call__(self, done: int, of: int) -> bool:
        if self._bar is None:
            self._bar = self._made(of)
        self._bar.total = of or None
        self._bar.update(done - self._bar.n)
        return True

    def close(self) -> None:
        """The work has ended, or failed."""
        if self._bar is not None:
            self._bar.close()

    def _made(self, of: int) -> Any:
        try:
            from tqdm.auto import tqdm  # type: ignore[import-untyped, import-not-found, unused-ignore]
        except ImportError:
            return Line(self._label)
        scaled = self._unit == "B"
        return tqdm(total=of or None, desc=self._label, unit=self._unit, unit_scale=scaled)


class Line:
    """What stands in for tqdm: a line that is written anew at each percent."""

    def __init__(self, label: str) -> None:
        self.n = 0
        self.total: int | None = None
        self._label = label
        self._written = ""

    def update(self, count: int) -> None:
        self.n += count
        share = f"{self.n}" if self.total is None else f"{100 * self.n // max(1, self.total)} %"
        if share != self._written:
            self._written = share
            print(f"\r{self._label}: {share}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        print(file=sys.stderr)


@contextlib.contextmanager
def told(progress: Progress, label: str, unit: str = "it") -> Iterator[Teller | None]:
    """The function that long work calls: None where nobody is to be told."""
    if progress is None or progress is False:
        yield None
    elif progress is True:
        bar = Bar(label, unit)
        try:
            yield bar
        finally:
            bar.close()
    else:
        function = progress
        yield lambda done, of: function(done, of) is not False
