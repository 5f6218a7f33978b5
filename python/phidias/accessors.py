"""Values by their names, from a model or a run of one; among them the lists of nnterp's first
version: ``model.layers_output[3]``, ``model.attentions_input[3]``.

Reading one gives the value, writing one makes the edit, in the trace whose block is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import _core
from .values import Node, Root, Value

# Where each list's entries are. A module stands for its output there.
ACCESSORS = {
    "layers_input": "layer_input",
    "layers_output": "layer_output",
    "attentions": "self_attn.attention_output",
    "attentions_input": "attention_norm_output",
    "attentions_output": "self_attn.attention_output",
    "mlps": "mlp.mlp_output",
    "mlps_input": "mlp_input",
    "mlps_output": "mlp.mlp_output",
    "attention_probabilities": "self_attn.attention_probabilities",
}


class Accessor:
    """One value of every layer, by the layer's number."""

    def __init__(self, root: Root, name: str) -> None:
        self._root = root
        self._name = name

    def __getitem__(self, layer: int) -> Value:
        count = len(self)
        if not -count <= layer < count:
            raise IndexError(f"there is no layer {layer}; there are {count}")
        path = f"layers[{layer % count}].{ACCESSORS[self._name]}"
        return Value(self._root, _core.ValueRef.parse(path))

    def __setitem__(self, layer: int, value: Any) -> None:
        self[layer]._assign(value)

    def __len__(self) -> int:
        return self._root._size("num_layers")

    def __iter__(self) -> Iterator[Value]:
        return (self[layer] for layer in range(len(self)))

    def __repr__(self) -> str:
        return f"<{self._name}: {ACCESSORS[self._name]} of {len(self)} layers>"


class Tree(Root):
    """What has the values as its attributes (``tree.layers[3].layer_output``, ``tree.logits``), and
    by paths (``tree["blocks.3.hook_resid_post"]``)."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in ACCESSORS:
            return Accessor(self, name)
        return getattr(Node(self, "", "model"), name)

    def __getitem__(self, path: str) -> Value:
        """A value by its path, a native module's name or a TransformerLens hook."""
        return Value(self, _core.ValueRef.parse(path))
