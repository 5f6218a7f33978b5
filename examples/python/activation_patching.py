"""Activation patching: which places carry the country?

Two prompts that differ in one word. The stream of one run is put into the other, place by place, and
the answer is watched as it turns from Berlin to Paris. One sees the country's own column turn it in
the lower layers, and the last token's in the upper ones.
    python activation_patching.py MODEL [PICTURE.html]
"""

import sys

import phidias

CLEAN, CORRUPT = "The capital of France is", "The capital of Germany is"


def main(path: str, picture: str | None = None) -> phidias.Sweep:
    model = phidias.Model(path)
    sweep = phidias.patch_sweep(model, CLEAN, CORRUPT, phidias.logit_diff(" Paris", " Berlin"))
    print(f"Paris less Berlin: {sweep.clean:.2f} for France, {sweep.base:.2f} for Germany")
    print("share of the difference that one patched place brings back:")
    print(sweep)
    if picture is not None:
        sweep.save(picture)
    return sweep


if __name__ == "__main__":
    main(*sys.argv[1:])
