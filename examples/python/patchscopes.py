"""Patchscopes: let the model say what it has in mind.

The stream of a word is put in place of the question mark of "cat cat, hello hello, ?", and the model
repeats what it finds there. One sees the word itself in the lower half of the layers; above, the
stream holds what comes next, and the word is gone.
    python patchscopes.py MODEL [PICTURE.html]
"""

import sys
from typing import Any

import phidias

SOURCES = ["I love to visit France", "He moved back to Japan", "She has a little dog"]


def main(path: str, picture: str | None = None) -> dict[str, Any]:
    model = phidias.Model(path)
    target = phidias.repeat_prompt(["cat", "hello", "table", "green"])
    layers = list(range(0, model.num_layers, 3))
    probabilities = phidias.patchscope_lens(model, SOURCES, target, layers=layers)
    said = {}
    for source, rows in zip(SOURCES, probabilities):
        said[source] = [model.decode([int(row.argmax())]) for row in rows]
        print(f"{source!r}:")
        for layer, word, row in zip(layers, said[source], rows):
            print(f"  layer {layer:2}: {word!r} ({row.max():.2f})")
    if picture is not None:
        phidias.display.plot_topk_tokens(probabilities, model, title=str(SOURCES)).save(picture)
    return said


if __name__ == "__main__":
    main(*sys.argv[1:])
