"""Causal tracing: where is the fact?

Noise on the subject's embeddings makes the model forget. Then the clean run's stream is put back at
one layer and position: where that brings the answer back, it had been carried.
    python causal_tracing.py MODEL
"""

import sys

import numpy as np
import phidias

PROMPT = "The Eiffel Tower is in the city of"


def main(path: str) -> dict:
    model = phidias.Model(path)
    ids = model.encode(PROMPT)
    tokens = [model.decode([i]) for i in ids]
    end = tokens.index(" Tower")
    answer = model.encode(" Paris")[0]

    with model.trace(ids) as t:
        stream = t.layers[:].layer_output.save()
        embeddings = t.token_embeddings.save()
        clean = t.next_token_probs.save()
    forget = phidias.noise(model.token_embeddings[:, 1 : end + 1], 5 * embeddings.std(), seed=1)

    def probability(edits) -> float:
        with model.trace(ids, edits=edits) as t:
            probabilities = t.next_token_probs.save()
        return float(probabilities[0, answer])

    corrupted = probability(forget)
    layers = list(range(0, model.num_layers, 6)) + [model.num_layers - 1]
    grid = np.empty((len(layers), len(ids)))
    for row, layer in enumerate(layers):
        for position in range(len(ids)):
            restore = phidias.patch(f"layers[{layer}].layer_output", stream[layer], [position])
            grid[row, position] = probability([forget, *restore])

    print(f"P(Paris): clean {clean[0, answer]:.3f}, with noise on the subject {corrupted:.3f}")
    print("with the stream restored at one place:")
    print("layer " + " ".join(f"{token.strip():>7}" for token in tokens))
    for layer, row in zip(layers, grid):
        print(f"{layer:5} " + " ".join(f"{p:7.3f}" for p in row))
    return {"clean": float(clean[0, answer]), "corrupted": corrupted, "grid": grid, "end": end}


if __name__ == "__main__":
    main(sys.argv[1])
