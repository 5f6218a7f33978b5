"""Writing activation datasets: shards of a fixed number of tokens, and an index that names the
complete ones. Whatever ends the work, what the index lists is whole; a later call goes on there.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from .datasets import ActivationDataset
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    from .model import Model

FORMAT = 1
_SAFETENSORS_NAMES = {"<f4": "F32", "<f2": "F16", "<u2": "BF16", "<i8": "I64", "|i1": "I8"}


def collect(
    model: Model,
    texts: Iterable[Any],
    read: Sequence[str],
    folder: str | os.PathLike[str],
    *,
    dtype: str = "bf16",
    shard_tokens: int = 65536,
    max_tokens: int = 0,
    resume: bool = True,
) -> ActivationDataset:
    """Runs texts (or ids) and keeps values of all their tokens in a folder.

    Args:
        read: paths of values with one row a token, such as ``layers[16].layer_output``.
        dtype: ``f32``, ``bf16``, ``f16``, or ``i8`` with a scale for each row.
        shard_tokens: tokens of a shard; the last one has fewer.
        max_tokens: cut texts there; 0: at the context.
        resume: go on behind the complete shards of an earlier call with the same reads; the texts
            must be the same. Otherwise a folder with a dataset is an error.
    """
    if dtype not in ("f32", "bf16", "f16", "i8"):
        raise InvalidArgumentError(f"is {dtype!r}; f32, bf16, f16 and i8 are known", item="dtype")
    refs = [_core.ValueRef.parse(path) for path in read]
    for ref in refs:
        if "seq" not in ref.info.axes or ref.many_layers or ref.is_part:
            raise InvalidArgumentError("is not one row a token of one layer", item=str(ref))
    writer = _Writer(pathlib.Path(folder), dtype, shard_tokens)
    about = {
        "format": FORMAT,
        "model": model.info.path,
        "weights": _digest(model.info.files),
        "engine": _core.build_info()["version"],
        "dtype": dtype,
        "numerics": model.engine.options["numerics"],
        "weight_types": [list(pair) for pair in model.info.weight_types],
        "rope_switch": "reprefill",
        "reads": [str(ref) for ref in refs],
        "edits": [],
        "shard_tokens": shard_tokens,
    }
    skip = writer.begin(about, resume)
    limit = min(max_tokens or model.engine.context, model.engine.context)
    for number, text in enumerate(texts):
        ids = model.encode(text)[:limit]
        if skip >= len(ids):
            skip -= len(ids)
            continue
        with model.trace(ids) as t:
            saved = [t.read(str(ref)) for ref in refs]
        columns = {_file_name(ref): _rows(ref, one.numpy())[skip:] for ref, one in zip(refs, saved)}
        writer.add(number, np.asarray(ids, np.int64)[skip:], skip, columns)
        skip = 0
    writer.finish()
    return ActivationDataset(folder)


def bytes_per_token(model: Model, read: Sequence[str], dtype: str = "bf16") -> int:
    """What a dataset takes for each token."""
    sizes = {"f32": 4, "bf16": 2, "f16": 2, "i8": 1}
    there = {one.value.name: one.extents for one in _core.support(model._weights)}
    total = 24  # id, position, text
    for path in read:
        extents = there[_core.ValueRef.parse(path).info.name]
        width = int(np.prod([int(extent) for extent in extents if extent not in ("1", "seq")]))
        total += width * sizes[dtype] + (4 if dtype == "i8" else 0)
    return total


class _Writer:
    """Fills shards. A shard is written beside its name and renamed, then the index is."""

    def __init__(self, folder: pathlib.Path, dtype: str, capacity: int) -> None:
        self._folder = folder
        self._dtype = dtype
        self._capacity = capacity
        self._index: dict[str, Any] = {}
        self._parts: dict[str, list[NDArray[Any]]] = {}
        self._held = 0

    def begin(self, about: dict[str, Any], resume: bool) -> int:
        """Tokens that complete shards have already."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / "index.json"
        self._index = {**about, "complete": False, "shards": []}
        if not path.exists():
            return 0
        if not resume:
            raise InvalidArgumentError("the folder has a dataset already", file=str(path))
        index = json.loads(path.read_text(encoding="utf-8"))
        for key, value in about.items():
            if index.get(key) != value:
                raise InvalidArgumentError(
                    f"the dataset there has {key} {index.get(key)!r}, not {value!r}",
                    file=str(path),
                    item=key,
                )
        self._index["shards"] = index["shards"]
        if index.get("complete") and self._index["shards"]:
            # The last shard may be short: it is made again where more texts have come.
            if self._index["shards"][-1]["tokens"] < self._capacity:
                self._index["shards"].pop()
        return sum(int(shard["tokens"]) for shard in self._index["shards"])

    def add(
        self, sequence: int, ids: NDArray[Any], first: int, columns: dict[str, NDArray[Any]]
    ) -> None:
        rows = {
            "token_ids": ids,
            "positions": np.arange(first, first + len(ids), dtype=np.int64),
            "sequence": np.full(len(ids), sequence, np.int64),
            **columns,
        }
        begin = 0
        while begin < len(ids):
            end = min(len(ids), begin + self._capacity - self._held)
            for name, column in rows.items():
                self._parts.setdefault(name, []).append(column[begin:end])
            self._held += end - begin
            begin = end
            if self._held == self._capacity:
                self._write()

    def finish(self) -> None:
        if self._held:
            self._write()
        self._index["complete"] = True
        self._save_index()

    def _write(self) -> None:
        tensors: dict[str, NDArray[Any]] = {}
        for name, parts in self._parts.items():
            joined = np.concatenate(parts)
            if joined.dtype == np.int64:
                tensors[name] = joined
            else:
                tensors |= _narrowed(name, joined, self._dtype)
        sequence = tensors["sequence"]
        starts = np.flatnonzero(np.diff(sequence, prepend=-1))
        tensors["sequence_offsets"] = np.append(starts, len(sequence)).astype(np.int64)
        file = f"shard-{len(self._index['shards']):05}.safetensors"
        digest = _save(self._folder / file, tensors)
        self._index["shards"].append({"file": file, "tokens": self._held, "sha256": digest})
        self._parts = {}
        self._held = 0
        self._save_index()

    def _save_index(self) -> None:
        _replace(self._folder / "index.json", json.dumps(self._index, indent=1).encode())


def _file_name(ref: _core.ValueRef) -> str:
    return str(ref).replace("[", ".").replace("]", "")


def _rows(ref: _core.ValueRef, array: NDArray[Any]) -> NDArray[Any]:
    """One row a token."""
    axis = ref.info.axes.index("seq")
    return np.ascontiguousarray(np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1))


def _narrowed(name: str, rows: NDArray[Any], dtype: str) -> dict[str, NDArray[Any]]:
    if dtype == "bf16":
        bits = np.ascontiguousarray(rows, np.float32).view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # to nearest, ties to even
        return {name: rounded.astype("<u2")}
    if dtype == "i8":
        scale = np.abs(rows).max(1, initial=0) / np.float32(127)
        divisor = np.where(scale > 0, scale, 1)[:, None]
        return {name: np.rint(rows / divisor).astype(np.int8), f"{name}.scale": scale.astype("<f4")}
    return {name: rows.astype("<f2" if dtype == "f16" else "<f4")}


def _save(path: pathlib.Path, tensors: dict[str, NDArray[Any]]) -> str:
    """Writes a safetensors file; its SHA-256."""
    header: dict[str, Any] = {}
    offset = 0
    for name, array in tensors.items():
        header[name] = {
            "dtype": _SAFETENSORS_NAMES[array.dtype.str],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % 64)  # the data begins aligned
    return _replace(
        path, len(text).to_bytes(8, "little") + text, *(array.data for array in tensors.values())
    )


def _replace(path: pathlib.Path, *parts: Any) -> str:
    digest = hashlib.sha256()
    beside = path.with_name(path.name + ".part")
    with open(beside, "wb") as file:
        for part in parts:
            file.write(part)
            digest.update(part)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    return digest.hexdigest()


def _digest(files: Sequence[str]) -> str:
    """Tells weights apart: names, sizes and beginnings of their files."""
    digest = hashlib.sha256()
    for file in files:
        with open(file, "rb") as opened:
            digest.update(f"{os.path.basename(file)} {os.path.getsize(file)} ".encode())
            digest.update(opened.read(1 << 20))
    return digest.hexdigest()
