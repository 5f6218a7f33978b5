"""Causal tracing: where is the fact?

Noise on the subject's embeddings makes the model forget. Then the clean run's stream is put back at
one layer and position: where that brings the answer back, it had been carried. One sees two places:
the subject's last token in the lower layers, and the last token in the upper ones; the fact moves
from the one to the other in between.
    python causal_tracing.py MODEL [PICTURE.html]
"""

import sys
from typing import Any

import numpy as np
import phidias

PROMPT = "The Eiffel Tower is in the city of"


def main(path: str, picture: str | None = None) -> dict[str, Any]:
    model = phidias.Model(path)
    ids = model.encode(PROMPT)
    end = [model.decode([i]) for i in ids].index(" Tower")
    with model.trace(ids) as t:
        embeddings = t.token_embeddings.save()
    forget = phidias.noise(model.token_embeddings[:, 1 : end + 1], 5 * embeddings.std(), seed=1)

    # The same text twice: noise in the one, places of the other put in.
    sweep = phidias.patch_sweep(model, ids, ids, phidias.log_prob(" Paris"), edits=forget)
    grid, clean, corrupted = (np.exp(x) for x in (sweep.metric, sweep.clean, sweep.base))
    print(f"P(Paris): clean {clean:.3f}, with noise on the subject {corrupted:.3f}")
    print("with the stream restored at one place:")
    print("layer " + " ".join(f"{token:>7}" for token in sweep.columns))
    for layer in reversed(range(0, model.num_layers, 3)):
        print(f"{layer:5} " + " ".join(f"{p:7.3f}" for p in grid[layer]))
    if picture is not None:
        title = "P(Paris) with the stream restored at one place"
        phidias.display.heat_map(grid, columns=sweep.columns, title=title, corner="layer").save(picture)
    return {"clean": float(clean), "corrupted": float(corrupted), "grid": grid, "end": end}


if __name__ == "__main__":
    main(*sys.argv[1:])
