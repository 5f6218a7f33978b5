"""The tree of values: names, layouts, sizes, aliases, indices."""

import re

import numpy as np
import phidias
import pytest
from phidias.values import INFOS

STANDARD = """input_ids attention_mask input_size token_embeddings final_norm_output lm_head_output logits
next_token_probs layer_input attention_norm_output layer_mid mlp_norm_output mlp_input layer_output
attention_queries attention_keys attention_values attention_scores attention_probabilities
attention_head_outputs attention_premix attention_output mlp_activation mlp_neurons mlp_output"""


def test_the_25_standard_values_are_there_and_but_two_can_be_written():
    standard = {name for name, info in INFOS.items() if info.standard}
    assert standard == set(STANDARD.split()) and len(standard) == 25
    locked = {name for name in standard if not INFOS[name].writable}
    assert locked == {"next_token_probs", "input_size"}


def test_printing_the_model_shows_every_value_with_its_layout(tiny):
    text = str(tiny)
    for name in STANDARD.split():
        assert f"({name}) -> {INFOS[name].layout}" in text
    assert "qkv_proj" in text and "0-2" in text


def test_support_tells_the_truth(tiny):
    support = tiny.support()
    ids = tiny.encode("four")
    for name, reasons in support.items():
        path = name.replace("layers.", "layers[1].", 1)
        if reasons is None:
            with tiny.trace(ids) as t:
                saved = t.read(path)
            info = tiny[path].info
            assert saved.ndim == len(info.axes) or info.layout == "Size"
        else:
            assert set(reasons) == ({0, 1, 2} if name.startswith("layers.") else {0})
            of_images = name.startswith("vision.")  # they are no part of a run, in any model
            told = "trace_image" if of_images else re.escape(reasons[0])
            with pytest.raises(phidias.Error, match=told):
                with tiny.trace(ids) as t:
                    t.read(path)
    assert tiny.support(layer=2)["mlp_output"] is None


def test_sizes_are_attributes_everywhere_and_read_only(tiny):
    assert (tiny.num_layers, tiny.head_dim, tiny.layers[0].self_attn.num_kv_heads) == (3, 8, 2)
    assert tiny.layers[0].mlp.intermediate_size == tiny.intermediate_size == 48
    with pytest.raises(AttributeError):
        tiny.num_heads = 5
    with pytest.raises(AttributeError):
        tiny.layers[0].self_attn.num_heads = 5


def test_layers_are_indexed_like_lists(tiny):
    assert len(tiny.layers) == 3
    assert tiny.layers[-1].layer_output.path == "layers[2].layer_output"
    assert tiny.layers[1:].layer_output.path == "layers[1:3].layer_output"
    assert [layer.mlp.mlp_output.path for layer in tiny.layers][2] == "layers[2].mlp.mlp_output"
    with pytest.raises(IndexError):
        tiny.layers[3]


@pytest.mark.parametrize(
    ("spelling", "path"),
    [
        ("layers.1.mlp_neurons", "layers[1].mlp.mlp_neurons"),
        ("model.layers.1.self_attn.o_proj.input", "layers[1].self_attn.attention_premix"),
        ("blocks.1.hook_resid_pre", "layers[1].layer_input"),
        ("blocks.1.attn.hook_pattern", "layers[1].self_attn.attention_probabilities"),
        ("blocks.1.attn.hook_rot_k", "layers[1].self_attn.attention_keys"),
        ("blocks.1.mlp.hook_post", "layers[1].mlp.mlp_neurons"),
        ("hook_embed", "token_embeddings"),
        ("ln_final.hook_normalized", "final_norm_output"),
    ],
)
def test_other_peoples_names_are_aliases(tiny, spelling, path):
    assert tiny[spelling].path == path


def test_native_modules_ends_are_values(tiny):
    layer = tiny.layers[1]
    assert layer.input.path == "layers[1].layer_input"
    assert layer.output.path == "layers[1].layer_output"
    assert layer.self_attn.qkv_proj.output.path == "layers[1].self_attn.qkv_output"
    assert layer.mlp.down_proj.input.path == "layers[1].mlp.mlp_neurons"
    assert layer.post_attention_layernorm.input.path == "layers[1].layer_mid"
    assert tiny.model.embed_tokens.output.path == "token_embeddings"
    assert tiny.lm_head.output.path == "lm_head_output"


def test_an_unknown_name_is_told_with_those_that_there_are(tiny):
    with pytest.raises(AttributeError, match="layer_output"):
        tiny.layers[0].layer_outputs
    with pytest.raises(ValueError, match="layer_output"):
        tiny["layers[0].layer_outputs"]


def test_indices_become_selections(tiny):
    heads = tiny.layers[0].self_attn.attention_head_outputs
    assert heads[:, :, 2].path == "layers[0].self_attn.attention_head_outputs[head=2]"
    assert heads[:, -1].path == "layers[0].self_attn.attention_head_outputs[at=-1]"
    assert heads[..., 3:].path.endswith("[channel=3,4,5,6,7]")
    pattern = tiny.layers[0].self_attn.attention_probabilities
    assert pattern[:, -1, 2:, 0].path.endswith("[at=2:, head=3, key=0]")
    keys = tiny.layers[0].self_attn.attention_keys
    assert keys.head(1).at("last").path.endswith("[at=last, head=1]")
    assert tiny.layers[0].mlp.mlp_neurons.neuron(4, 5).path.endswith("[neuron=4,5]")


def test_indices_out_of_range_fail_where_they_are_written(tiny):
    with pytest.raises(IndexError, match="num_heads"):
        tiny.layers[0].self_attn.attention_head_outputs[:, :, 4]
    with pytest.raises(IndexError, match="3 axes"):
        tiny.layers[0].layer_output[0, 0, 0, 0]
    with pytest.raises(IndexError, match="batch"):
        tiny.layers[0].layer_output[1]
    with pytest.raises(IndexError, match="already"):
        tiny.layers[0].layer_output[:, 0][0]
    with pytest.raises(IndexError, match="new axis"):
        tiny.layers[0].layer_output[None]


def test_layouts_are_classes_that_know_their_arrays(tiny):
    value = tiny.layers[0].self_attn.attention_probabilities
    assert value.layout is phidias.layouts.Pattern and str(value.layout) == "Pattern"
    assert value.dims == list(value.layout.dims) == ["batch", "num_heads", "query", "key"]
    with tiny.trace("four") as t:
        pattern, ids, stream = value.save(), t.input_ids.save(), t.layers[0].layer_output.save()
    assert isinstance(pattern.numpy(), phidias.layouts.Pattern)
    assert isinstance(ids.numpy(), phidias.layouts.Tokens)
    assert isinstance(stream, phidias.layouts.Residual)
    assert not isinstance(stream.numpy(), phidias.layouts.Pattern)
    assert not isinstance(ids.numpy(), phidias.layouts.NextTokenProbs)
    assert not isinstance(7, phidias.layouts.Residual)
    with pytest.raises(AttributeError, match="Residual"):
        phidias.layouts.Stream


def test_a_module_tells_which_values_it_has(tiny):
    layer = tiny.layers[1].support()
    assert layer["layer_output"] is None and layer["mlp_neurons"] is None
    assert "experts" in layer["router_logits"]
    assert set(tiny.layers[1].mlp.support()) < set(layer)
    assert "attention_queries" not in tiny.layers[1].mlp.support()
    with tiny.trace("four") as t:
        assert t.layers[1].self_attn.support()["attention_scores"] is None


def test_a_checkpoint_tells_its_values_before_its_weights_are_read(tiny, tiny_path):
    assert phidias.describe(tiny_path) == str(tiny)
    told = {one.name: one.missing for one in phidias.support(tiny_path)}
    assert told["layers.layer_output"] is None and told["layers.mlp.router_logits"]
    assert phidias.inspect(tiny_path).info.hidden_size == 32


def test_the_lists_of_nnterps_first_version(tiny):
    with tiny.trace("four") as t:
        out = tiny.layers_output[1].save()
        enters = t.layers_input[2].save()
        tiny.attentions_output[0] = 0
        tiny.mlps_output[-1] *= 2
        pattern = tiny.attention_probabilities[0].save()
    assert np.array_equal(out, enters) and pattern.shape == (1, 4, 4, 4)
    assert t.touched == [4, 4] and tiny.attn_probs_available
    assert len(tiny.mlps) == 3 and tiny.attentions_input[-1].path == "layers[2].attention_norm_output"
    with pytest.raises(IndexError):
        tiny.layers_output[3]


@pytest.mark.parametrize(
    ("hook", "path"),
    [
        ("hook_resid_post", "layer_output"),
        ("hook_resid_mid", "layer_mid"),
        ("hook_attn_out", "self_attn.attention_output"),
        ("hook_mlp_out", "mlp.mlp_output"),
        ("ln1.hook_normalized", "attention_norm_output"),
        ("ln2.hook_normalized", "mlp_norm_output"),
        ("attn.hook_q", "self_attn.attention_queries_pre_rotary"),
        ("attn.hook_k", "self_attn.attention_keys_pre_rotary"),
        ("attn.hook_rot_q", "self_attn.attention_queries"),
        ("attn.hook_v", "self_attn.attention_values"),
        ("attn.hook_attn_scores", "self_attn.attention_scores"),
        ("attn.hook_z", "self_attn.attention_premix"),
        ("attn.hook_result", "self_attn.attention_head_contributions"),
        ("mlp.hook_pre", "mlp.mlp_gate"),
        ("mlp.hook_pre_linear", "mlp.mlp_up"),
    ],
)
def test_hooks_of_a_block_can_be_read_by_their_names(tiny, hook, path):
    with tiny.trace("four") as t:
        one, other = t[f"blocks.2.{hook}"].save(), t[f"layers[2].{path}"].save()
    assert np.array_equal(one, other)
