"""Induction heads: who copies from the last time?

In a random sequence that is repeated, a head that looks at the token after the earlier occurrence
scores high. Without the best of them the repetition is no longer foreseen.
    python induction_heads.py MODEL
"""

import sys

import numpy as np
import phidias

LENGTH = 24


def main(path: str) -> dict:
    model = phidias.Model(path)
    random = np.random.default_rng(3)
    half = random.integers(1000, 20000, LENGTH).tolist()
    ids = half + half
    with model.trace(ids) as t:
        patterns = t.layers[:].self_attn.attention_probabilities.save()
        logits = t.logits.save()
    # From a token of the second half to the one behind its first occurrence.
    queries = np.arange(LENGTH, 2 * LENGTH)
    scores = patterns[:, 0][:, :, queries, queries - LENGTH + 1].mean(-1)
    order = np.argsort(-scores, axis=None)
    ranked = [tuple(int(i) for i in np.unravel_index(i, scores.shape)) for i in order]
    for layer, head in ranked[:6]:
        print(f"layer {layer:2} head {head}: {scores[layer, head]:.0%} of its attention")

    def loss(logits: np.ndarray) -> float:
        rows = logits[0, LENGTH:-1].astype(np.float64)
        rows -= rows.max(-1, keepdims=True)
        log_probabilities = rows - np.log(np.exp(rows).sum(-1, keepdims=True))
        return float(-log_probabilities[np.arange(LENGTH - 1), ids[LENGTH + 1 :]].mean())

    def without(heads) -> float:
        edits = [
            phidias.zero(model.layers[layer].self_attn.attention_head_outputs[:, :, head])
            for layer, head in heads
        ]
        with model.trace(ids, edits=edits) as t:
            changed = t.logits.save()
        return loss(changed.numpy())

    # As many others, from the same layers.
    best = ranked[:8]
    others = [(layer, int(scores[layer].argmin())) for layer, _ in best]
    losses = {"whole": loss(logits.numpy()), "without": without(best), "others": without(others)}
    print(f"loss on the repetition: {losses['whole']:.2f}")
    print(f"without these heads: {losses['without']:.2f}; without as many others: {losses['others']:.2f}")
    return {"best": float(scores.max()), **losses}


if __name__ == "__main__":
    main(sys.argv[1])
