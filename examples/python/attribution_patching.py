"""Attribution patching: every patch at once.

One forward and one backward pass foretell what patching each layer's attention and MLP would do to
the answer; then the patches are made, to see how well. One sees two lists of numbers that agree, in
sign and nearly in size.
    python attribution_patching.py MODEL [PICTURE.html]
"""

import sys
from typing import Any

import numpy as np
import phidias

CLEAN, CORRUPT = "The capital of France is", "The capital of Germany is"
METRIC = phidias.logit_diff(" Paris", " Berlin")
VALUES = ["layers[*].self_attn.attention_output", "layers[*].mlp.mlp_output"]


def main(path: str, picture: str | None = None) -> dict[str, Any]:
    model = phidias.Model(path, numerics="exact")
    estimate = phidias.attribute(model, CLEAN, CORRUPT, METRIC, VALUES)
    foretold = np.stack([estimate[value].sum((1, 2, 3)) for value in VALUES], 1)

    sweeps = [
        phidias.patch_sweep(model, CLEAN, CORRUPT, METRIC, value.rpartition(".")[2], axis="layers")
        for value in VALUES
    ]
    made = np.concatenate([sweep.change for sweep in sweeps], 1)
    correlation = float(np.corrcoef(made.ravel(), foretold.ravel())[0, 1])

    print(f"Paris less Berlin: {estimate.corrupt:.2f} for Germany, {estimate.clean:.2f} for France")
    print("effect of patching a whole layer, foretold and made:")
    for layer in range(0, model.num_layers, 3):
        attention, mlp = zip(foretold[layer], made[layer])
        print(
            f"  layer {layer:2}: attention {attention[0]:+6.2f} {attention[1]:+6.2f}"
            f"   mlp {mlp[0]:+6.2f} {mlp[1]:+6.2f}"
        )
    print(f"correlation over {made.size} patches: {correlation:.2f}")
    if picture is not None:
        columns = ["attention, foretold", "made", "mlp, foretold", "made"]
        table = np.stack([foretold[:, 0], made[:, 0], foretold[:, 1], made[:, 1]], 1)
        phidias.display.heat_map(table, columns=columns, corner="layer").save(picture)
    return {"correlation": correlation, "foretold": foretold, "made": made}


if __name__ == "__main__":
    main(*sys.argv[1:])
