#!/usr/bin/env python3
"""Makes the image files of this folder and pixels.json: for each the size and SHA-256 of the RGB bytes that Pillow
decodes it to. Lossless files hold the same picture, so that the checksums show what is dropped and what is kept.
Needs Pillow 12 and numpy. Usage: make_images.py [FOLDER]"""
import hashlib
import json
import os
import sys

import numpy as np
from PIL import Image

W, H = 23, 17  # odd, so that chroma blocks and rows end in the middle of a unit


def picture():
    y, x = np.mgrid[0:H, 0:W]
    rgb = np.stack([x * 11, y * 15, (x * y * 7) % 256], -1)
    return Image.fromarray(rgb.astype(np.uint8), "RGB")


def main(folder):
    rgb = picture()
    alpha = Image.fromarray(((np.mgrid[0:H, 0:W][1] * 9) % 256).astype(np.uint8), "L")
    rgba = rgb.copy()
    rgba.putalpha(alpha)
    grey = rgb.convert("L")
    palette = rgb.quantize(13)
    files = {
        "rgb.png": (rgb, {}),
        "rgba.png": (rgba, {}),
        "grey.png": (grey, {}),
        "bilevel.png": (grey.point(lambda v: 255 * (v > 99)).convert("1"), {}),
        "palette.png": (palette, {"bits": 4}),
        "palette-transparent.png": (palette, {"transparency": 3}),
        "baseline.jpg": (rgb, {"quality": 85}),
        "progressive.jpg": (rgb, {"quality": 85, "progressive": True}),
        "turned.jpg": (rgb, {"quality": 85, "exif": b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"}),
        "grey.jpg": (grey, {"quality": 85}),
        "inks.jpg": (rgb.convert("CMYK"), {"quality": 85}),
        "lossy.webp": (rgb, {"quality": 80}),
        "lossless-alpha.webp": (rgba, {"lossless": True, "exact": True}),
    }
    pixels = {}
    for name, (image, options) in files.items():
        path = os.path.join(folder, name)
        image.save(path, **options)
        with Image.open(path) as opened:
            decoded = np.asarray(opened.convert("RGBA").convert("RGB") if opened.mode == "P" else opened.convert("RGB"))
        pixels[name] = {"width": decoded.shape[1], "height": decoded.shape[0],
                        "sha256": hashlib.sha256(decoded.tobytes()).hexdigest()}
    rgb.save(os.path.join(folder, "animation.webp"), save_all=True, append_images=[rgb.rotate(180)], lossless=True)
    rgb.save(os.path.join(folder, "other.gif"))
    with open(os.path.join(folder, "pixels.json"), "w") as file:
        json.dump(pixels, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)))
