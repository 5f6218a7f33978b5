"""Attention patterns: what do heads look at?

One head of each kind: one that looks at the token before, and one that rests on the first token. One
sees a line beside the diagonal, and a full first column.
    python attention_patterns.py MODEL [PICTURE.html]
"""

import sys
from typing import Any

import numpy as np
import phidias

TEXT = "The cat that the dog had chased sat on the mat"
SHADES = " .:-=+*#%@"


def draw(pattern: np.ndarray, tokens: list[str]) -> str:
    """A pattern as a picture made of characters."""
    lines = []
    for query, row in enumerate(pattern):
        cells = "".join(2 * SHADES[min(9, int(10 * p))] for p in row[: query + 1])
        lines.append(f"{tokens[query]:>8} |{cells}")
    return "\n".join(lines)


def main(path: str, picture: str | None = None) -> dict[str, Any]:
    model = phidias.Model(path)
    tokens = [model.decode([i]).strip() for i in model.encode(TEXT)]
    found, patterns = {}, []
    for kind in ("previous", "first"):
        layer, head, score = phidias.head_scores(model, TEXT, kind).best(1)[0]
        with model.trace(TEXT) as t:
            pattern = t.layers[layer].self_attn.attention_probabilities[0, head].save()
        found[kind] = (layer, head, score)
        patterns.append(pattern.numpy())
        print(f"{kind} token: layer {layer}, head {head}, {score:.0%} of its attention")
        print(draw(pattern.numpy(), tokens))
    if picture is not None:
        title = "A head that looks at the token before, and one that rests on the first"
        phidias.display.attention_pattern(np.stack(patterns), tokens, title=title).save(picture)
    return {"found": found, "patterns": np.stack(patterns)}


if __name__ == "__main__":
    main(*sys.argv[1:])
