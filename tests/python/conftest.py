"""Models for the tests: a tiny one that is made here, the reference's, and a real small one."""

from __future__ import annotations

import json
import os
import pathlib

import numpy as np
import phidias
import pytest

ROOT = pathlib.Path(__file__).parents[2]
REFERENCE = pathlib.Path(os.environ.get("PHIDIAS_REFERENCE_DATA", ROOT / "../shared/golden"))
REAL = pathlib.Path(os.environ.get("PHIDIAS_REAL_MODEL", ROOT / "models/real"))

LAYERS, HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD_DIM = 3, 32, 48, 4, 2, 8
MARKERS = ["<|endoftext|>", "<|user|>", "<|assistant|>", "<|end|>"]
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def byte_alphabet() -> list[str]:
    """The 256 characters by which byte-level vocabularies spell bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]


def write_tiny_model(folder: pathlib.Path) -> None:
    """A random Phi-3 of three blocks with grouped queries and one token for each byte."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = 256 + len(MARKERS)
    random = np.random.default_rng(7)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return random.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)

    def norm() -> np.ndarray:
        return random.uniform(0.5, 1.5, HIDDEN).astype(np.float32)

    tensors = {
        "model.embed_tokens.weight": random.normal(0, 1, (vocabulary, HIDDEN)).astype(np.float32),
        "model.norm.weight": norm(),
        "lm_head.weight": matrix(vocabulary, HIDDEN),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        tensors |= {
            prefix + "input_layernorm.weight": norm(),
            prefix + "post_attention_layernorm.weight": norm(),
            prefix + "self_attn.qkv_proj.weight": matrix((HEADS + 2 * KV_HEADS) * HEAD_DIM, HIDDEN),
            prefix + "self_attn.o_proj.weight": matrix(HIDDEN, HEADS * HEAD_DIM),
            prefix + "mlp.gate_up_proj.weight": matrix(2 * INTERMEDIATE, HIDDEN),
            prefix + "mlp.down_proj.weight": matrix(HIDDEN, INTERMEDIATE),
        }
    save_file(tensors, folder / "model.safetensors")
    config = {
        "architectures": ["Phi3ForCausalLM"],
        "model_type": "phi3",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "vocab_size": vocabulary,
        "max_position_embeddings": 256,
        "original_max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
        "eos_token_id": 256,
    }
    (folder / "config.json").write_text(json.dumps(config))
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [
            {"id": 256 + i, "content": text, "special": True, "normalized": False}
            | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
            for i, text in enumerate(MARKERS)
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level | {"use_regex": True},
        "post_processor": None,
        "decoder": byte_level | {"use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {character: byte for byte, character in enumerate(byte_alphabet())},
            "merges": [],
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": "<|endoftext|>", "chat_template": TEMPLATE})
    )


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("tiny")
    write_tiny_model(folder)
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_path: pathlib.Path) -> phidias.Model:
    """In exact numerics, where identities hold to the bit."""
    return phidias.Model(tiny_path, numerics="exact")


@pytest.fixture(scope="session")
def reference() -> pathlib.Path:
    if not (REFERENCE / "models").is_dir():
        pytest.skip("no reference data (PHIDIAS_REFERENCE_DATA)")
    return REFERENCE


@pytest.fixture(scope="session")
def real_path() -> pathlib.Path:
    if not (REAL / "phi3").is_dir():
        pytest.skip("no real model (PHIDIAS_REAL_MODEL)")
    return REAL / "phi3"


@pytest.fixture(scope="session")
def real(real_path: pathlib.Path) -> phidias.Model:
    return phidias.Model(real_path)
