"""Attention patterns, as pictures made of characters.

One head of each kind: one that looks at the token before, one that rests on the first token.
    python attention_patterns.py MODEL
"""

import sys

import numpy as np
import phidias

TEXT = "The cat that the dog had chased sat on the mat"
SHADES = " .:-=+*#%@"


def draw(pattern: np.ndarray, tokens: list[str]) -> str:
    lines = []
    for query, row in enumerate(pattern):
        cells = "".join(2 * SHADES[min(9, int(10 * p))] for p in row[: query + 1])
        lines.append(f"{tokens[query]:>8} |{cells}")
    return "\n".join(lines)


def main(path: str) -> dict:
    model = phidias.Model(path)
    tokens = [model.decode([i]).strip() for i in model.encode(TEXT)]
    with model.trace(TEXT) as t:
        patterns = t.layers[:].self_attn.attention_probabilities.save()
    before = np.diagonal(patterns[:, 0], -1, axis1=-2, axis2=-1).mean(-1)
    first = patterns[:, 0, :, 1:, 0].mean(-1)
    found = {}
    for kind, scores in (("previous token", before), ("first token", first)):
        layer, head = np.unravel_index(scores.argmax(), scores.shape)
        found[kind] = (int(layer), int(head), float(scores.max()))
        print(f"{kind}: layer {layer}, head {head}, {scores.max():.0%} of its attention")
        print(draw(patterns[layer, 0, head], tokens))
    return {"found": found, "patterns": patterns.numpy()}


if __name__ == "__main__":
    main(sys.argv[1])
