"""Logit lens: what would each layer answer?

The final norm and the head are put on what leaves each layer, at every position; the top row is the
model itself. One sees guesses that have nothing to do with the question in the lower half, a few
European cities around two thirds of the way up, and " Paris" in the last layers.
    python logit_lens.py MODEL [PICTURE.html]
"""

import sys

import phidias

PROMPT = "The capital of France is"


def main(path: str, picture: str | None = None) -> phidias.Lens:
    model = phidias.Model(path)
    lens = model.lens(PROMPT, topk=5)
    print(lens)

    answer = model.encode(" Paris")[0]
    layers = phidias.logit_lens(model, PROMPT)[0]
    print("rank and probability of Paris at the last position:")
    for layer in range(0, model.num_layers, 3):
        rank = int((layers[layer] > layers[layer, answer]).sum())
        print(f"  layer {layer:2}: {rank:5}  {layers[layer, answer]:.3f}")
    if picture is not None:
        lens.save(picture, title=PROMPT)
    return lens


if __name__ == "__main__":
    main(*sys.argv[1:])
