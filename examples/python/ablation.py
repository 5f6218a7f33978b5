"""Ablation: which layers and heads does an answer need?

Every layer is left out in turn, then every head. One sees that the first layer is needed, that most
others can go one at a time, and that a few heads of the upper layers carry much of the answer.
    python ablation.py MODEL [PICTURE.html]
"""

import sys
from typing import Any

import numpy as np
import phidias

PROMPT = "The capital of France is"
METRIC = phidias.log_prob(" Paris")


def main(path: str, picture: str | None = None) -> dict[str, Any]:
    model = phidias.Model(path)
    skips = [phidias.skip_layers(layer, layer) for layer in range(model.num_layers)]
    without_layer = np.exp(phidias.run_variations(model, PROMPT, skips, METRIC))
    heads = phidias.ablation_sweep(model, PROMPT, METRIC)
    whole, without_head = float(np.exp(heads.base)), np.exp(heads.metric)

    print(f"P(Paris) is {whole:.3f}. Without a layer:")
    for layer, p in enumerate(without_layer):
        print(f"  {layer:2} {p:.3f} {'#' * round(40 * p)}")
    print("without a head, where it matters most:")
    for place in np.argsort(without_head, axis=None)[:8]:
        layer, head = np.unravel_index(place, without_head.shape)
        print(f"  layer {layer:2} head {head}: {without_head[layer, head]:.3f}")
    if picture is not None:
        heads.save(picture)
    return {"whole": whole, "without_layer": without_layer, "without_head": without_head}


if __name__ == "__main__":
    main(*sys.argv[1:])
