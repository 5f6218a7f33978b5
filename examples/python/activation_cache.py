"""Activations of a set of texts, on disk: resumable shards that are mapped, not loaded.

One sees what a million tokens would take, and that the rows on disk are those of a live run but for
their rounding to 16 bits. Called again with the same folder it has nothing left to do.
    python activation_cache.py MODEL [FOLDER]
"""

import sys
import tempfile
from typing import Any

import numpy as np
import phidias
from corpus import paragraphs

READ = ["layers[8].layer_output", "layers[16].layer_output"]


def main(path: str, folder: str | None = None) -> dict[str, Any]:
    model = phidias.Model(path)
    texts = paragraphs(8)
    each = phidias.bytes_per_token(model, READ)
    print(f"{each} bytes a token: {each * 1e6 / 1e9:.1f} GB for a million tokens")
    with tempfile.TemporaryDirectory() as temporary:
        where = folder or temporary
        dataset = phidias.collect(model, texts, READ, where, shard_tokens=256)
        print(dataset)
        rows = dataset.sequence(3)
        with model.trace(texts[3]) as t:
            live = t.layers[16].layer_output.save()
        stored = dataset["layers.16.layer_output"][rows]
        worst = float(np.abs(stored - live[0]).max() / np.abs(live[0]).max())
        print(f"text 3: {model.decode(dataset.token_ids[rows].tolist())[:60]!r}...")
        print(f"its rows are those of a live run, rounded to bf16: off by {worst:.4f} of the largest")
        return {"tokens": len(dataset), "worst": worst, "shards": len(dataset.shards)}


if __name__ == "__main__":
    main(*sys.argv[1:])
