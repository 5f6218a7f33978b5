"""Writing activation datasets, as ``phidias collect`` does it: shards on disk, and an index that names
the complete ones. Whatever ends the work, what the index lists is whole, and a later call goes on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from . import _core
from .datasets import ActivationDataset
from .edits import edits_of
from .progress import Progress, told
from .values import Value

if TYPE_CHECKING:
    from .model import Model


def collect(
    model: Model,
    texts: Iterable[Any],
    read: str | Value | Sequence[str | Value],
    folder: str | os.PathLike[str],
    *,
    edits: Any = None,
    dtype: str = "bf16",
    loss: bool = False,
    shard_tokens: int = 65536,
    shuffle_tokens: int = 0,
    shuffle_seed: int = 0,
    max_tokens: int = 0,
    resume: bool = True,
    progress: Progress = None,
) -> ActivationDataset:
    """Runs texts (or ids) and keeps values of all their tokens in a folder.

    Args:
        read: values with one row a token, such as ``layers[16].layer_output`` or
            ``layers[*].mlp.mlp_neurons``.
        edits: in force while they run.
        dtype: of the numbers on disk: ``f32``, ``bf16``, ``f16``, or ``i8`` with a scale for each row.
        loss: also keep each token's negative log-probability, as ``loss``.
        shard_tokens: tokens of a shard; the last one has fewer.
        shuffle_tokens: so many tokens at a time are brought into a random order, across texts, by
            ``shuffle_seed``.
        max_tokens: cut texts there; 0: at the context.
        resume: go on behind the complete shards of an earlier call with the same texts, reads and
            options. Otherwise a folder with a dataset is an error.
        progress: as tokens are done: see :mod:`phidias.progress`.
    """
    limit = min(max_tokens or model.engine.context, model.engine.context)
    with told(progress, "collecting") as tell:
        _core.collect(
            model.engine,
            [model.encode(text)[:limit] for text in texts],
            os.fspath(folder),
            _refs(read),
            edits=[edit.data for edit in [*model._lasting_edits, *edits_of(edits)]],
            dtype=dtype,
            loss=loss,
            shard_tokens=shard_tokens,
            shuffle_tokens=shuffle_tokens,
            shuffle_seed=shuffle_seed,
            resume=resume,
            progress=tell,
        )
    return ActivationDataset(folder)


def bytes_per_token(
    model: Model, read: str | Value | Sequence[str | Value], dtype: str = "bf16", loss: bool = False
) -> int:
    """What a dataset takes for each token."""
    return _core.collected_bytes_per_token(model._weights, _refs(read), dtype=dtype, loss=loss)


def _refs(read: str | Value | Sequence[str | Value]) -> list[_core.ValueRef]:
    values = [read] if isinstance(read, (str, Value)) else read
    return [_core.ValueRef.parse(one) if isinstance(one, str) else one._ref for one in values]
