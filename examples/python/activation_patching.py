"""Activation patching: which places carry the country?

Two prompts that differ in one word. The stream of one run is put into the other, place by place, and
the answer is watched as it turns from Berlin to Paris.
    python activation_patching.py MODEL
"""

import sys

import numpy as np
import phidias

CLEAN, CORRUPT = "The capital of France is", "The capital of Germany is"


def main(path: str) -> dict:
    model = phidias.Model(path)
    paris, berlin = model.encode(" Paris")[0], model.encode(" Berlin")[0]
    tokens = [model.decode([i]) for i in model.encode(CLEAN)]

    def run(prompt, edits=None):
        with model.trace(prompt, edits=edits) as t:
            stream = t.layers[:].layer_output.save()
            logits = t.logits[0, -1].save()
        return stream, float(logits[paris] - logits[berlin])

    stream, clean = run(CLEAN)
    _, corrupt = run(CORRUPT)
    layers = list(range(0, model.num_layers, 6)) + [model.num_layers - 1]
    share = np.empty((len(layers), len(tokens)))
    for row, layer in enumerate(layers):
        for position in range(len(tokens)):
            patch = phidias.patch(f"layers[{layer}].layer_output", stream[layer], [position])
            share[row, position] = (run(CORRUPT, patch)[1] - corrupt) / (clean - corrupt)

    print(f"logit of Paris less that of Berlin: {clean:.2f} for France, {corrupt:.2f} for Germany")
    print("share of the difference that one patched place brings back:")
    print("layer " + " ".join(f"{token.strip():>8}" for token in tokens))
    for layer, row in zip(layers, share):
        print(f"{layer:5} " + " ".join(f"{s:8.2f}" for s in row))
    return {"clean": clean, "corrupt": corrupt, "share": share, "tokens": tokens}


if __name__ == "__main__":
    main(sys.argv[1])
