"""Exceptions: one for each code of the library, all of them ``phidias.Error``.

Each also is the built-in exception that says the same, so ``except FileNotFoundError`` works as
well as ``except phidias.Error``.
"""

from __future__ import annotations


class Error(Exception):
    """What the library reports: a code, a sentence that says what to do, and a place.

    Attributes:
        code: a short stable name such as ``"invalid_argument"``.
        message: the sentence.
        file: the file where it happened, or "".
        item: a tensor's name, a JSON path or an option, or "".
        offset: bytes from the start of the file, or None.
    """

    code: str = "internal"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        file: str = "",
        item: str = "",
        offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.file = file
        self.item = item
        self.offset = offset

    @property
    def place(self) -> str:
        """Where it happened, in one line; "" where that is not known."""
        parts = [part for part in (self.file, self.item) if part]
        if self.offset is not None:
            parts.append(f"at byte {self.offset}")
        return ", ".join(parts)

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


class InvalidArgumentError(Error, ValueError):
    """An option or a request that cannot be honoured as written."""

    code = "invalid_argument"


class NotFoundError(Error, FileNotFoundError):
    """A file, model or name that does not exist."""

    code = "not_found"


class CorruptError(Error, ValueError):
    """A file that contradicts itself or its format."""

    code = "corrupt"


class UnsupportedError(Error, NotImplementedError):
    """Well formed, but not something this build runs."""

    code = "unsupported"


class OutOfMemoryError(Error, MemoryError):
    """The memory asked for is not to be had."""

    code = "out_of_memory"


class CapacityExceededError(Error):
    """A stated limit (context, batch, budget) would be passed."""

    code = "capacity_exceeded"


class NonFiniteError(Error, ArithmeticError):
    """Logits that are NaN or infinite."""

    code = "non_finite"


class CancelledError(Error):
    """The caller asked for the end."""

    code = "cancelled"


class IoError(Error, OSError):
    """The operating system refused a read or a write, or the network failed."""

    code = "io"


class InternalError(Error, RuntimeError):
    """A mistake of the library's own."""

    code = "internal"


_BY_CODE: dict[str, type[Error]] = {
    kind.code: kind
    for kind in (
        InvalidArgumentError,
        NotFoundError,
        CorruptError,
        UnsupportedError,
        OutOfMemoryError,
        CapacityExceededError,
        NonFiniteError,
        CancelledError,
        IoError,
        InternalError,
    )
}


def from_code(code: str, message: str, file: str, item: str, offset: int | None) -> Error:
    """The exception for an error of the C++ library."""
    kind = _BY_CODE.get(code, InternalError)
    return kind(message, code=code, file=file, item=item, offset=offset)
