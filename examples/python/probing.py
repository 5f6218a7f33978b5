"""Probing: from which layer on is a language known?

A linear probe on the last token of sentences that all end alike. One sees that at the bottom it can
only guess, and that a few layers up it is nearly always right.
    python probing.py MODEL [PICTURE.html]
"""

import sys

import numpy as np
import phidias

ENGLISH = """the house is very old|my brother eats an apple|we are going to the beach tomorrow
the cat sleeps on the chair|she bought a new red car|the water of the lake is cold
he reads the newspaper every morning|the children play in the garden|it is raining a lot today
our teacher speaks slowly|the train leaves at eight|I lost my keys yesterday"""
FRENCH = """la maison est très vieille|mon frère mange une pomme|nous allons à la plage demain
le chat dort sur la chaise|elle a acheté une nouvelle voiture rouge|l'eau du lac est froide
il lit le journal chaque matin|les enfants jouent dans le jardin|il pleut beaucoup aujourd'hui
notre professeur parle lentement|le train part à huit heures|j'ai perdu mes clés hier"""


def sentences(text: str) -> list[str]:
    return [f"{one} ..." for line in text.splitlines() for one in line.split("|")]


def accuracy(rows: np.ndarray, labels: np.ndarray) -> float:
    """Of ridge regression, each pair of sentences left out in turn."""
    right = 0
    for out in range(len(rows) // 2):
        held = np.zeros(len(rows), bool)
        held[[out, out + len(rows) // 2]] = True
        known, mean = rows[~held], rows[~held].mean(0)
        kernel = (known - mean) @ (known - mean).T
        ridge = np.trace(kernel) / len(known) + 1e-6
        weights = np.linalg.solve(kernel + ridge * np.eye(len(known)), labels[~held])
        guess = (rows[held] - mean) @ (known - mean).T @ weights
        right += int(((guess > 0) == (labels[held] > 0)).sum())
    return right / len(rows)


def main(path: str, picture: str | None = None) -> list[float]:
    model = phidias.Model(path)
    texts = sentences(ENGLISH) + sentences(FRENCH)
    labels = np.repeat([1.0, -1.0], len(texts) // 2)
    with model.trace(texts) as t:
        embeddings = t.token_embeddings[:, -1].save()
        streams = t.layers[:].layer_output[:, -1].save()
    found = [accuracy(np.stack([e[0] for e in embeddings]), labels)]
    for layer in range(model.num_layers):
        found.append(accuracy(np.stack([one[layer, 0] for one in streams]), labels))
    names = ["embeddings", *(f"layer {layer}" for layer in range(model.num_layers))]
    for name, share in zip(names, found):
        print(f"{name:>10}: {share:4.0%} {'#' * round(40 * share)}")
    if picture is not None:
        phidias.display.bars(dict(zip(names, found)), title="French or English?").save(picture)
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
