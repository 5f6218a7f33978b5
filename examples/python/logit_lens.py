"""Logit lens: what would each layer answer?

The final norm and the head are put on what leaves each layer. The last row is the model itself.
    python logit_lens.py MODEL
"""

import sys

import phidias


def main(path: str) -> phidias.Lens:
    model = phidias.Model(path)
    lens = model.lens("The capital of France is", topk=3)
    print(lens)

    answer = model.tokenizer.encode(" Paris")[0]
    layers = phidias.logit_lens(model, "The capital of France is")[0]
    for layer, probabilities in enumerate(layers):
        rank = int((probabilities > probabilities[answer]).sum())
        print(f"layer {layer:2}: Paris has rank {rank:5} and probability {probabilities[answer]:.3f}")
    return lens


if __name__ == "__main__":
    main(sys.argv[1])
