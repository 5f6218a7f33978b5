"""Induction heads: who copies from the last time?

In a random sequence that is repeated, a head that looks at the token behind the earlier occurrence
scores high. One sees a few such heads, that the repetition is no longer foreseen without them, and
that as many other heads of the same layers are not missed.
    python induction_heads.py MODEL [PICTURE.html]
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import phidias

LENGTH, TAKEN = 24, 8


def main(path: str, picture: str | None = None) -> dict[str, Any]:
    model = phidias.Model(path)
    half = np.random.default_rng(3).integers(1000, 20000, LENGTH).tolist()
    ids = half + half
    scores = phidias.head_scores(model, ids, "induction")
    print(scores)

    def loss(heads: Sequence[tuple[int, int]] = ()) -> float:
        """Of the second half, without some heads."""
        edits = [
            phidias.zero(model.layers[layer].self_attn.attention_head_outputs[:, :, head])
            for layer, head in heads
        ]
        with model.trace(ids, edits=edits) as t:
            logits = t.logits.save()
        rows = logits[0, LENGTH:-1].astype(np.float64)
        rows -= rows.max(-1, keepdims=True)
        log_probabilities = rows - np.log(np.exp(rows).sum(-1, keepdims=True))
        return float(-log_probabilities[np.arange(LENGTH - 1), ids[LENGTH + 1 :]].mean())

    best = [(layer, head) for layer, head, _ in scores.best(TAKEN)]
    others = [(layer, int(scores.scores[layer].argmin())) for layer, _ in best]
    losses = {"whole": loss(), "without": loss(best), "others": loss(others)}
    print(f"loss on the repetition: {losses['whole']:.2f}")
    print(f"without these heads: {losses['without']:.2f}; without as many others: {losses['others']:.2f}")
    if picture is not None:
        scores.save(picture)
    return {"best": float(scores.scores.max()), **losses}


if __name__ == "__main__":
    main(*sys.argv[1:])
