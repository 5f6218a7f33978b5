"""A small sparse autoencoder, trained here, and put into the model.

It learns to write a layer's stream as a sum of few directions (the 16 strongest of 1024). One sees
that put in place of the stream the model hardly notices, and that with a feature taken away it does.
    python sparse_autoencoder.py MODEL [PICTURE.html]
"""

import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import phidias
from corpus import paragraphs

LAYER, FEATURES, ACTIVE, STEPS = 12, 1024, 16, 300


class Autoencoder:
    """Top-k: the k strongest features are kept. Decoder rows have length 1."""

    def __init__(self, rows: np.ndarray, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.mean = rows.mean(0)
        self.scale = float(np.sqrt(np.square(rows - self.mean).sum(1).mean()))
        examples = rows[random.choice(len(rows), FEATURES, replace=len(rows) < FEATURES)]
        directions = examples - self.mean + random.normal(0, 1e-3, (FEATURES, rows.shape[1]))
        self.decoder = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        self.encoder = self.decoder.copy()

    def encode(self, x: np.ndarray) -> np.ndarray:
        activations = ((x - self.mean) / self.scale) @ self.encoder.T
        weakest = np.partition(activations, -ACTIVE, axis=-1)[..., -ACTIVE, None]
        return np.asarray(np.where(activations >= np.maximum(weakest, 0), activations, 0))

    def decode(self, features: np.ndarray) -> np.ndarray:
        return np.asarray(features @ self.decoder * self.scale + self.mean)

    def in_the_engine(self) -> phidias.Autoencoder:
        """The same directions as the engine has them: of every feature that is above 0."""
        return phidias.Autoencoder(
            self.encoder.T / self.scale,
            np.zeros(FEATURES),
            self.decoder * self.scale,
            self.mean,
            centred=True,
        )

    def train(self, rows: np.ndarray, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        moments = [[np.zeros_like(w), np.zeros_like(w)] for w in (self.encoder, self.decoder)]
        for step in range(1, STEPS + 1):
            x = (rows[random.choice(len(rows), 256)] - self.mean) / self.scale
            features = self.encode(x * self.scale + self.mean)
            error = features @ self.decoder - x
            toward = (error @ self.decoder.T) * (features > 0)
            gradients = (toward.T @ x / len(x), features.T @ error / len(x))
            for weight, gradient, (first, second) in zip(
                (self.encoder, self.decoder), gradients, moments
            ):  # Adam
                first += 0.1 * (gradient - first)
                second += 0.001 * (np.square(gradient) - second)
                rate = 2e-3 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
                weight -= rate * first / (np.sqrt(second) + 1e-8)
            self.decoder /= np.linalg.norm(self.decoder, axis=1, keepdims=True)


def main(path: str, picture: str | None = None) -> dict[str, Any]:
    model = phidias.Model(path)
    texts = paragraphs(48)
    training, held_out = texts[:42], texts[42:]
    value = f"layers[{LAYER}].layer_output"
    with tempfile.TemporaryDirectory() as folder:
        dataset = phidias.collect(model, training, [value], folder)
        rows = dataset[dataset.values[0]][dataset.positions[:] > 0]  # the first token is a sink
    coder = Autoencoder(rows)
    coder.train(rows)
    rest = np.square(coder.decode(coder.encode(rows)) - rows).sum()
    explained = 1 - rest / np.square(rows - rows.mean(0)).sum()

    def loss(function: Callable[[np.ndarray], Any] | None = None, edits: Any = None) -> float:
        total, count = 0.0, 0
        for text in held_out:
            with model.trace(text, edits=edits) as t:
                if function is not None:
                    t.layers[LAYER].layer_output[:, 1:].edit(function)
                logits = t.logits.save()
            ids = t.ids
            shifted = logits[0] - logits[0].max(-1, keepdims=True)
            log_probabilities = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
            total -= log_probabilities[np.arange(len(ids) - 1), ids[1:]].sum()
            count += len(ids) - 1
        return total / count

    losses = {
        "clean": loss(),
        "autoencoder": loss(lambda x: coder.decode(coder.encode(x))),
        "mean": loss(lambda x: np.broadcast_to(coder.mean, x.shape)),
    }
    recovered = (losses["mean"] - losses["autoencoder"]) / (losses["mean"] - losses["clean"])
    strongest = int((coder.encode(rows) > 0).mean(0).argmax())

    # As data, inside the engine: what the autoencoder does not see of the stream stays.
    stream = model.layers[LAYER].layer_output[:, 1:]
    edit = phidias.sae(stream, coder.in_the_engine(), scale={strongest: 0})
    losses["without one feature"] = loss(edits=edit)
    print(f"{len(rows)} tokens; {ACTIVE} of {FEATURES} features explain {explained:.0%} of the variance")
    for name, one in losses.items():
        print(f"loss on held-out text, {name}: {one:.3f}")
    print(f"of what the layer's stream brings, the features bring {recovered:.0%}")
    if picture is not None:
        phidias.display.bars(losses, title="loss on held-out text").save(picture)
    return {"explained": float(explained), "recovered": recovered, "losses": losses}


if __name__ == "__main__":
    main(*sys.argv[1:])
