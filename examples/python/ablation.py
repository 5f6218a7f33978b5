"""Ablation: which layers and heads does an answer need?
    python ablation.py MODEL
"""

import sys

import numpy as np
import phidias

PROMPT = "The capital of France is"


def main(path: str) -> dict:
    model = phidias.Model(path)
    answer = model.encode(" Paris")[0]

    def probability(edit=None) -> float:
        with model.trace(PROMPT, edits=edit) as t:
            probabilities = t.next_token_probs.save()
        return float(probabilities[0, answer])

    whole = probability()
    without_layer = [probability(phidias.skip_layers(i, i)) for i in range(model.num_layers)]
    print(f"P(Paris) is {whole:.3f}. Without a layer:")
    for layer, p in enumerate(without_layer):
        print(f"  {layer:2} {p:.3f} {'#' * round(40 * p)}")

    # The heads of the later layer that matters most.
    half = model.num_layers // 2
    layer = half + int(np.argmin(without_layer[half:]))
    heads = model.layers[layer].self_attn.attention_head_outputs
    without_head = [probability(phidias.zero(heads[:, :, h])) for h in range(model.num_heads)]
    print(f"without a head of layer {layer}:")
    for head, p in enumerate(without_head):
        print(f"  {head:2} {p:.3f} {'#' * round(40 * p)}")
    return {"whole": whole, "without_layer": without_layer, "without_head": without_head}


if __name__ == "__main__":
    main(sys.argv[1])
