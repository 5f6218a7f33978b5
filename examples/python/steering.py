"""Steering: one vector makes the story gloomy or glad.

The mean difference of what leaves a layer after glad and after gloomy sentences, added while the
model writes. One sees the same beginning go on with death, with a deer, and with joy and peace.
    python steering.py MODEL [VECTOR.gguf]
"""

import sys
from typing import Any

import phidias

GLAD = [
    "I am so happy today. Everything is wonderful and I love it",
    "What a joyful, delightful, amazing day",
    "I feel great, cheerful and full of love",
]
GLOOMY = [
    "I am so sad today. Everything is terrible and I hate it",
    "What a miserable, awful, horrible day",
    "I feel bad, gloomy and full of hate",
]
PROMPT = "I went to the park and"
LAYER = 12


def main(path: str, file: str | None = None) -> dict[str, Any]:
    model = phidias.Model(path)
    vector = phidias.contrast(model, zip(GLAD, GLOOMY), method="mean")

    texts = {}
    for name, factor in (("gloomy", -2), ("as it is", 0), ("glad", 2)):
        steering = vector.steer(factor, layers=[LAYER])
        texts[name] = model.generate(PROMPT, max_new_tokens=28, edits=steering).text
        print(f"{name:>8}: {PROMPT}{texts[name]}")
    if file is not None:
        vector.save(file)  # llama.cpp loads it too
    return texts


if __name__ == "__main__":
    main(*sys.argv[1:])
