"""Direct logit attribution: which parts write the answer?

The last stream is the sum of the embedding and of what every head and MLP has added. With the final
norm held at its size, the logit is the sum of their shares. One sees a handful of MLPs and heads of
the last layers write most of it, and the sum equal the model's own number.
    python direct_logit_attribution.py MODEL [PICTURE.html]
"""

import sys

import phidias

PROMPT = "The capital of France is"


def main(path: str, picture: str | None = None) -> phidias.DirectAttribution:
    model = phidias.Model(path)
    shares = phidias.direct_attribution(model, PROMPT, " Paris")
    print(shares)
    print(f"the model's own logit of Paris is {shares.logit:.4f}")
    if picture is not None:
        shares.save(picture)
    return shares


if __name__ == "__main__":
    main(*sys.argv[1:])
