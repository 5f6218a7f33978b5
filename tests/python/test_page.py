"""The three snippets of nnterp's page on the phi3 family, in our Python: numpy in torch's place."""

import numpy as np
import pytest

PROMPT = "The Eiffel Tower is in the city of"


@pytest.fixture(params=["tiny", "real"])
def model(request):
    return request.getfixturevalue(request.param)


def test_the_block_in_order(model):
    with model.trace(PROMPT):
        x = model.layers[1].input.save()
        attn = model.layers[1].self_attn.attention_output.save()
        mlp = model.layers[1].mlp.mlp_output.save()
        out = model.layers[1].layer_output.save()

    assert np.array_equal(x + attn + mlp, out)


def test_qkv_proj_holds_the_queries_the_keys_and_the_values_as_three_slices(tiny):
    model = tiny
    with model.trace(PROMPT):
        qkv = model.layers[1].self_attn.qkv_proj.output.save()
        v = model.layers[1].self_attn.attention_values.save()

    H, KV, D = model.num_heads, model.num_kv_heads, model.head_dim
    q_pre, k_pre, v_flat = np.split(qkv, [H * D, (H + KV) * D], axis=-1)
    b, s, _ = qkv.shape
    assert np.array_equal(v_flat.reshape(b, s, KV, D).swapaxes(1, 2), v)


def test_gate_up_proj_holds_the_gate_and_the_up_projection_as_two_halves(model):
    with model.trace(PROMPT):
        gu = model.layers[1].mlp.gate_up_proj.output.save()
        act = model.layers[1].mlp.down_proj.input.save()

    gate, up = np.split(gu, 2, axis=-1)
    silu = gate / (1 + np.exp(-gate.astype(np.float64)))
    assert np.allclose(up * silu, act, rtol=1e-6, atol=1e-7)
