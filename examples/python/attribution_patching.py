"""Attribution patching: every patch at once.

One forward and one backward pass foretell what patching each layer's attention and MLP would do to
the answer. Some of the patches are then made, to see how well.
    python attribution_patching.py MODEL
"""

import sys

import numpy as np
import phidias

CLEAN, CORRUPT = "The capital of France is", "The capital of Germany is"
METRIC = phidias.logit_diff(" Paris", " Berlin")


def main(path: str) -> dict:
    model = phidias.Model(path, numerics="exact")
    paris, berlin = model.encode(" Paris")[0], model.encode(" Berlin")[0]
    with model.trace(CLEAN) as t:
        clean = [t.layers[:].self_attn.attention_output.save(), t.layers[:].mlp.mlp_output.save()]
        slopes = [
            t.layers[:].self_attn.attention_output.grad.save(),
            t.layers[:].mlp.mlp_output.grad.save(),
        ]
        t.metric = METRIC
    with model.trace(CORRUPT) as other:
        corrupt = [
            other.layers[:].self_attn.attention_output.save(),
            other.layers[:].mlp.mlp_output.save(),
        ]
    # Per layer: what the metric would lose if this part came from the other run.
    foretold = np.stack([((b - a) * g).sum((1, 2, 3)) for a, b, g in zip(clean, corrupt, slopes)])

    def patched(kind: int, layer: int) -> float:
        with model.trace(CLEAN) as run:
            part = (run.layers[layer].self_attn, run.layers[layer].mlp)[kind]
            setattr(part, ("attention_output", "mlp_output")[kind], corrupt[kind][layer])
            logits = run.logits[0, -1].save()
        return float(logits[paris] - logits[berlin])

    chosen = [(kind, layer) for kind in (0, 1) for layer in range(2, model.num_layers, 3)]
    made = np.array([patched(kind, layer) - t.metric_value for kind, layer in chosen])
    told = np.array([foretold[kind, layer] for kind, layer in chosen])
    correlation = float(np.corrcoef(made, told)[0, 1])

    print(f"Paris less Berlin: {t.metric_value:.2f}. Effect of a patch, foretold and made:")
    for (kind, layer), one, real in zip(chosen, told, made):
        print(f"  {('attention', 'mlp')[kind]:>9} {layer:2}: {one:+7.3f} {real:+7.3f}")
    print(f"correlation {correlation:.2f}; {made.size} patches in place of {foretold.size} foretold")
    return {"correlation": correlation, "foretold": foretold, "made": made}


if __name__ == "__main__":
    main(sys.argv[1])
