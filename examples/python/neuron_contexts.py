"""Collection at scale, and what neurons stand for: the contexts that excite them most.

One layer's neurons are kept for every token of some pages, and those that stand out are shown. One
sees neurons with a favourite: a word, a part of one, a sign, always the same.
    python neuron_contexts.py MODEL [PICTURE.html]
"""

import sys
import tempfile
from typing import Any

import numpy as np
import phidias
from corpus import paragraphs

LAYER = 10


def main(path: str, picture: str | None = None) -> dict[str, Any]:
    model = phidias.Model(path)
    value = f"layers[{LAYER}].mlp.mlp_neurons"
    with tempfile.TemporaryDirectory() as folder:
        dataset = phidias.collect(model, paragraphs(40), [value], folder, dtype="f16")
        neurons = dataset[dataset.values[0]][:]
        ids, positions, sequences = (c[:] for c in (dataset.token_ids, dataset.positions, dataset.sequences))
    neurons[positions == 0] = 0
    print(f"{len(ids)} tokens, {neurons.shape[1]} neurons of layer {LAYER}")

    # Neurons whose strongest places stand out from all others.
    strongest = np.sort(neurons, 0)[-8:]
    selective = strongest.mean(0) / (np.abs(neurons).mean(0) + 1e-3)
    found = {}
    for neuron in np.argsort(-selective)[:5]:
        places = np.argsort(-neurons[:, neuron])[:8]
        found[int(neuron)] = [model.decode([int(ids[p])]) for p in places]
        print(f"neuron {neuron}:")
        for p in places[:4]:
            begin = p - min(8, positions[p])
            context = model.decode(ids[begin:p].tolist()).replace("\n", " ")
            print(f"  {neurons[p, neuron]:6.2f}  {context}[{model.decode([int(ids[p])])}]")
    if picture is not None:
        # One of them on the text that excites it most.
        neuron = next(iter(found))
        here = sequences == sequences[neurons[:, neuron].argmax()]
        texts = [model.decode([int(i)]) for i in ids[here]]
        title = f"neuron {neuron} of layer {LAYER}"
        phidias.display.heat_map(neurons[here][:, [neuron]], rows=texts, title=title, upward=False).save(picture)
    return {"tokens": len(ids), "found": found}


if __name__ == "__main__":
    main(*sys.argv[1:])
