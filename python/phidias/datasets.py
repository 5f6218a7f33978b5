"""Activation datasets: what ``phidias collect`` writes, read without copying.

A dataset is a folder with ``index.json`` and shards in safetensors. Shards are mapped; what is
sliced out of them is read when it is looked at.
"""

from __future__ import annotations

import json
import mmap
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from .errors import CorruptError, NotFoundError
from .values import INFOS, Value

_DTYPES = {"F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1", "BF16": "<u2"}


class Shard:
    """A mapped safetensors file: its tensors as read-only arrays. bf16 comes as its bits (uint16)."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < 8:
                raise CorruptError("the file ends inside its header", file=str(path))
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        length = int.from_bytes(self._map[:8], "little")
        if length > size - 8:
            raise CorruptError("the header is longer than the file", file=str(path), offset=0)
        try:
            header = json.loads(self._map[8 : 8 + length])
        except ValueError as error:
            raise CorruptError(f"the header is no JSON: {error}", file=str(path), offset=8) from None
        self._start = 8 + length
        self._size = size - self._start
        self._header = {k: v for k, v in header.items() if k != "__metadata__"}

    def __contains__(self, name: str) -> bool:
        return name in self._header

    def names(self) -> list[str]:
        """The tensors' names."""
        return list(self._header)

    def dtype(self, name: str) -> str:
        """As the file has it, such as ``BF16``."""
        return str(self._entry(name)["dtype"])

    def tensor(self, name: str) -> NDArray[Any]:
        """A read-only view of the mapped file."""
        entry = self._entry(name)
        dtype = np.dtype(_DTYPES.get(entry["dtype"], "V0"))
        begin, end = entry["data_offsets"]
        count = int(np.prod(entry["shape"], dtype=np.int64))
        if dtype.itemsize == 0 or not 0 <= begin <= end <= self._size:
            raise CorruptError("its type or its place is wrong", file=str(self.path), item=name)
        if end - begin != count * dtype.itemsize:
            raise CorruptError("its size is not that of its shape", file=str(self.path), item=name)
        flat = np.frombuffer(self._map, dtype, count, self._start + begin)
        return flat.reshape(entry["shape"])

    def _entry(self, name: str) -> Any:
        if name not in self._header:
            raise NotFoundError(
                f"is not there; there are {', '.join(self._header)}", file=str(self.path), item=name
            )
        return self._header[name]


def widened(array: NDArray[Any], dtype: str, scale: NDArray[Any] | None = None) -> NDArray[np.float32]:
    """Numbers as float32, from the bits of bf16, from f16, or from i8 with a scale for each row."""
    if dtype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    if dtype == "I8" and scale is not None:
        rows = scale.reshape(len(array), *[1] * (array.ndim - 1))
        return np.asarray(array * rows, np.float32)
    return np.asarray(array, np.float32)


class ActivationDataset:
    """Activations of many texts, token by token.

    ``dataset["layers.16.layer_output"][100:200]`` are float32 rows of 100 tokens;
    ``dataset.sequence(3)`` those of one text; ``dataset.batches(4096)`` goes through all.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = pathlib.Path(folder)
        path = self.folder / "index.json"
        if not path.is_file():
            raise NotFoundError("the folder is no dataset: it has no index.json", file=str(path))
        try:
            self.index: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            shards = self.index["shards"]
            names = [shard["file"] for shard in shards]
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptError(f"the index cannot be read: {error!r}", file=str(path)) from None
        for name in names:
            if pathlib.PurePath(name).name != name:
                raise CorruptError(f"a shard lies outside the folder: {name}", file=str(path))
        self.shards = [Shard(self.folder / name) for name in names]
        lengths = [len(shard.tensor("token_ids")) for shard in self.shards]
        self._starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])

    def __len__(self) -> int:
        """Tokens."""
        return int(self._starts[-1])

    @property
    def values(self) -> list[str]:
        """The names of the values that were collected."""
        if not self.shards:
            return []
        return [name for name in self.shards[0].names() if name.rpartition(".")[2] in INFOS]

    def __getitem__(self, name: str | Value) -> Column:
        """A column by its name, or by the value's path."""
        if isinstance(name, Value) or "[" in name:
            ref = name._ref if isinstance(name, Value) else _core.ValueRef.parse(name)
            names = (one for one in self.values if _core.ValueRef.parse(one) == ref)
            name = next(names, name.path if isinstance(name, Value) else name)
        return Column(self, name)

    @property
    def token_ids(self) -> Column:
        """The token of each row."""
        return self["token_ids"]

    @property
    def positions(self) -> Column:
        """Its place in its text."""
        return self["positions"]

    @property
    def sequences(self) -> Column:
        """The number of its text."""
        return self["sequence"]

    def sequence(self, number: int) -> slice:
        """The rows of a text, to index columns with. Of datasets that are in order."""
        rows = np.flatnonzero(self.sequences[:] == number)
        if len(rows) == 0:
            raise IndexError(f"there is no text {number}")
        if rows[-1] - rows[0] + 1 != len(rows):
            raise IndexError("the dataset is shuffled: a text's rows are not together")
        return slice(int(rows[0]), int(rows[-1]) + 1)

    def batches(
        self, size: int, names: Sequence[str] | None = None
    ) -> Iterator[dict[str, NDArray[Any]]]:
        """All rows, ``size`` at a time: a dictionary of arrays."""
        names = list(names or [*self.values, "token_ids"])
        columns = {name: self[name] for name in names}
        for begin in range(0, len(self), size):
            yield {name: column[begin : begin + size] for name, column in columns.items()}

    def __repr__(self) -> str:
        return f"ActivationDataset({str(self.folder)!r}, {len(self)} tokens, {self.values})"


class Column:
    """A value of all tokens: indexed by token, it gives float32 rows (integers for ids)."""

    def __init__(self, dataset: ActivationDataset, name: str) -> None:
        self._dataset = dataset
        self._name = name
        for shard in dataset.shards:
            shard.tensor(name)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> NDArray[Any]:
        return self._gathered(index, self._rows)

    def bits(self, index: Any) -> NDArray[np.uint16]:
        """The same rows of a value that lies in bf16, as its bits. Without a copy where they are
        together in one shard."""
        return self._gathered(index, self._bits)

    def bf16(self, index: Any) -> Any:
        """The same as ``torch.from_dlpack`` takes it, to be a tensor of bfloat16."""
        bits = self.bits(index)
        return _core.bf16_tensor(np.require(bits, requirements=["C", "W"]))

    def _gathered(self, index: Any, rows_of: Callable[[Shard, NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
        if isinstance(index, slice):
            rows = np.arange(len(self))[index]
        else:
            rows = np.atleast_1d(np.asarray(index))
            if rows.dtype == bool:
                rows = np.flatnonzero(rows)
            rows = np.where(rows < 0, rows + len(self), rows)
        if len(rows) and not (0 <= rows.min() and rows.max() < len(self)):
            raise IndexError(f"there are {len(self)} tokens")
        starts = self._dataset._starts
        owners = np.searchsorted(starts, rows, side="right") - 1
        shards = [(self._dataset.shards[owner], owners == owner) for owner in np.unique(owners)]
        if len(shards) == 1:
            ((shard, _),) = shards
            whole = rows_of(shard, rows - starts[owners[0]])
        elif shards:
            parts = [rows_of(shard, rows[here] - starts[owners[here][0]]) for shard, here in shards]
            whole = np.empty((len(rows), *parts[0].shape[1:]), parts[0].dtype)
            for (_, here), part in zip(shards, parts):
                whole[here] = part
        else:
            whole = rows_of(self._dataset.shards[0], rows) if self._dataset.shards else np.empty(0)
        return whole if isinstance(index, slice) or np.ndim(index) else whole[0]

    def _bits(self, shard: Shard, rows: NDArray[Any]) -> NDArray[Any]:
        if shard.dtype(self._name) != "BF16":
            raise TypeError(f"{self._name} is of {shard.dtype(self._name)}, not of bf16: index it")
        array: NDArray[Any] = shard.tensor(self._name)[_together(rows)]
        return array

    def _rows(self, shard: Shard, rows: NDArray[Any]) -> NDArray[Any]:
        chosen = _together(rows)
        array = shard.tensor(self._name)[chosen]
        dtype = shard.dtype(self._name)
        if dtype in ("I64", "I32"):
            return np.array(array)
        scale = f"{self._name}.scale"
        return widened(array, dtype, shard.tensor(scale)[chosen] if scale in shard else None)


def _together(rows: NDArray[Any]) -> Any:
    """Rows one after another as a slice, which copies nothing."""
    if len(rows) > 0 and rows[-1] - rows[0] + 1 == len(rows) and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows
