"""Steering: one vector makes the story gloomy or glad.

The mean difference of what leaves a layer after glad and after gloomy sentences, added while the
model writes.
    python steering.py MODEL
"""

import sys

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


def main(path: str) -> dict:
    model = phidias.Model(path)
    glad = phidias.get_token_activations(model, GLAD, [LAYER])[0]
    gloomy = phidias.get_token_activations(model, GLOOMY, [LAYER])[0]
    vector = (glad - gloomy).mean(0)

    texts = {}
    for name, factor in (("gloomy", -2), ("as it is", 0), ("glad", 2)):
        steering = phidias.steer(LAYER, vector, factor)
        texts[name] = model.generate(PROMPT, max_new_tokens=28, edits=steering).text
        print(f"{name:>8}: {PROMPT}{texts[name]}")
    return texts


if __name__ == "__main__":
    main(sys.argv[1])
