"""Direct logit attribution: which layers write the answer?

The last stream is the sum of the embedding and of what every attention and MLP has added. With the
final norm's scale held where it is, the logit is the sum of their shares.
    python direct_logit_attribution.py MODEL
"""

import sys

import numpy as np
import phidias

PROMPT = "The capital of France is"


def main(path: str) -> dict:
    model = phidias.Model(path)
    paris = model.encode(" Paris")[0]
    with model.trace(PROMPT) as t:
        embedding = t.token_embeddings[0, -1].save()
        attention = t.layers[:].self_attn.attention_output[0, -1].save()
        mlp = t.layers[:].mlp.mlp_output[0, -1].save()
        scale = t.final_norm_scale[0, -1].save()
        logits = t.logits[0, -1].save()

    parts = np.concatenate([embedding[None], attention, mlp]).astype(np.float32)
    # project_on_vocab() divides a vector by its own length; here that of the real stream holds.
    length = np.sqrt(np.square(parts).mean(-1, keepdims=True))
    unit = 100 * parts / length  # so long that the norm's epsilon is nothing
    shares = model.project_on_vocab(unit)[:, paris] * length[:, 0] * float(scale[0])

    count = model.num_layers
    names = ["embedding", *(f"attention {i}" for i in range(count)), *(f"mlp {i}" for i in range(count))]
    for index in np.argsort(-np.abs(shares))[:10]:
        print(f"{names[index]:>12}: {shares[index]:+7.3f}")
    print(f"the sum is {shares.sum():.4f}, the logit of Paris {logits[paris]:.4f}")
    return {"sum": float(shares.sum()), "logit": float(logits[paris]), "shares": dict(zip(names, shares))}


if __name__ == "__main__":
    main(sys.argv[1])
