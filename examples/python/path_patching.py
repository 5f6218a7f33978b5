"""Path patching: which heads tell the name movers whom to name?

"John gave a drink to" is answered by heads that look at the other name. Their queries were told by
earlier heads which name to avoid. A head's output in the other run is carried along one edge only:
into the stream that a later layer's queries are made of, with that layer's norm held, and nowhere
else. One sees that one or two of the earlier heads turn the answer, and most do nothing.
    python path_patching.py MODEL [PICTURE.html]
"""

import sys
from typing import Any

import numpy as np
import phidias

CLEAN = "When Mary and John went to the store, John gave a drink to"
CORRUPT = "When Mary and John went to the store, Mary gave a drink to"
RECEIVER, SENDERS = 23, range(18, 23)


def main(path: str, picture: str | None = None) -> dict[str, Any]:
    model = phidias.Model(path)
    mary, john = model.encode(" Mary")[0], model.encode(" John")[0]

    def run(prompt: str) -> tuple[Any, ...]:
        with model.trace(prompt) as t:
            heads = t.layers[:].self_attn.attention_head_contributions[0, -1].save()
            stream = t.layers[RECEIVER].layer_input[0, -1].save()
            normed = t.layers[RECEIVER].attention_norm_output[0, -1].save()
            queries = t.layers[RECEIVER].self_attn.attention_queries_pre_rotary[0, :, -1].save()
            logits = t.logits[0, -1].save()
        return heads, stream, normed, queries, float(logits[mary] - logits[john])

    heads, stream, normed, queries, clean = run(CLEAN)
    other, _, _, other_queries, corrupt = run(CORRUPT)
    gain = normed / stream  # the norm's scale and weight, held

    def with_queries(vectors: Any) -> float:
        with model.trace(CLEAN) as t:
            t.layers[RECEIVER].self_attn.attention_queries_pre_rotary[0, :, -1] = vectors
            logits = t.logits[0, -1].save()
        return float(logits[mary] - logits[john])

    def along_the_edge(delta: Any) -> float:
        """The difference when the receiver's queries alone are made of stream + delta."""
        with model.trace(CLEAN) as t:
            t.layers[RECEIVER].attention_norm_output[0, -1] = (stream + delta) * gain
            changed = t.layers[RECEIVER].self_attn.attention_queries_pre_rotary[0, :, -1].save()
        return with_queries(changed.numpy())

    unchanged = with_queries(queries)
    whole = with_queries(other_queries) - clean
    effect = np.empty((len(SENDERS), model.num_heads))
    for row, layer in enumerate(SENDERS):
        for head in range(model.num_heads):
            effect[row, head] = along_the_edge(other[layer, head] - heads[layer, head]) - clean

    print(f"Mary less John: {clean:.2f} clean, {corrupt:.2f} in the other run")
    print(f"with all of layer {RECEIVER}'s queries from there: {whole:+.3f}; by sender (layer, head):")
    for index in np.argsort(-np.abs(effect), axis=None)[:8]:
        row, head = np.unravel_index(index, effect.shape)
        print(f"  ({SENDERS[row]:2}, {head}): {effect[row, head]:+.4f}")
    if picture is not None:
        title = f"Mary less John, when one head tells layer {RECEIVER}'s queries what it says there"
        rows = [f"layer {layer}" for layer in SENDERS]
        phidias.display.heat_map(effect, rows, title=title, corner="head").save(picture)
    return {
        "clean": clean,
        "corrupt": corrupt,
        "unchanged": unchanged,
        "whole": whole,
        "effect": effect,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
