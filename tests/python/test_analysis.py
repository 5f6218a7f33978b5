"""Sweeps, attribution, heads, directions: each agrees with the runs that it stands for."""

import numpy as np
import phidias
import pytest

CLEAN, CORRUPT = "the cat sat", "the dog sat"
METRIC = phidias.logit_diff(97, 98)


def metric_of(model, edits=None, prompt=CORRUPT):
    with model.trace(prompt, edits=edits) as t:
        logits = t.logits[0, -1].save()
    return float(logits[97] - logits[98])


def test_a_sweep_is_its_patches(tiny):
    told = []
    sweep = phidias.patch_sweep(
        tiny, CLEAN, CORRUPT, METRIC, progress=lambda done, of: told.append((done, of)) or True
    )
    assert sweep.metric.shape == (3, len(CORRUPT)) and told
    assert sweep.clean == pytest.approx(metric_of(tiny, prompt=CLEAN), abs=1e-6)
    assert sweep.base == pytest.approx(metric_of(tiny), abs=1e-6)
    with tiny.trace(CLEAN) as t:
        stream = t.layers[1].layer_output.save()
    patched = metric_of(tiny, phidias.patch("layers[1].layer_output", stream, [4]))
    assert sweep.metric[1, 4] == pytest.approx(patched, abs=1e-6)
    assert sweep.recovered[2, -1] == pytest.approx(1, abs=1e-4)
    assert "<table" in sweep._repr_html_() and len(str(sweep).splitlines()) == 4
    with pytest.raises(phidias.CancelledError):
        phidias.patch_sweep(tiny, CLEAN, CORRUPT, METRIC, progress=lambda done, of: False)
    with pytest.raises(phidias.InvalidArgumentError):
        phidias.patch_sweep(tiny, "longer", CORRUPT, METRIC)


def test_causal_tracing_and_windows_are_patches_too(tiny):
    noise = phidias.noise(tiny.token_embeddings[:, 4:7], 2, seed=1)
    sweep = phidias.patch_sweep(tiny, CLEAN, CLEAN, METRIC, "mlp_output", window=3, edits=noise)
    with tiny.trace(CLEAN) as t:
        clean = t.layers[:].mlp.mlp_output.save()
    patches = [
        edit for n in range(3) for edit in phidias.patch(f"layers[{n}].mlp_output", clean[n], [5])
    ]
    assert sweep.base == pytest.approx(metric_of(tiny, noise, CLEAN), abs=1e-6)
    assert sweep.metric[1, 5] == pytest.approx(metric_of(tiny, [noise, *patches], CLEAN), abs=1e-6)


def test_ablations_take_heads_and_layers_out(tiny):
    heads = phidias.ablation_sweep(tiny, CORRUPT, METRIC)
    assert heads.metric.shape == (3, 4) and heads.columns[2] == "head 2"
    zeroed = phidias.zero(tiny.layers[1].self_attn.attention_head_outputs[:, :, 2])
    assert heads.metric[1, 2] == pytest.approx(metric_of(tiny, zeroed), abs=1e-6)
    assert heads.change[1, 2] == pytest.approx(metric_of(tiny, zeroed) - metric_of(tiny), abs=1e-6)
    layers = phidias.ablation_sweep(
        tiny, CORRUPT, METRIC, "mlp_output", ablation="mean", axis="layers"
    )
    with tiny.trace(CORRUPT) as t:
        output = t.layers[2].mlp.mlp_output.save()
    mean = phidias.mean("layers[2].mlp_output", output.numpy())
    assert layers.metric[2, 0] == pytest.approx(metric_of(tiny, mean), abs=1e-5)
    assert layers._repr_html_().count("<td") == 3


def test_variations_are_whole_runs(tiny):
    variations = [[], phidias.skip_layers(1, 1), [phidias.zero("layers[2].mlp_output")]]
    found = phidias.run_variations(tiny, CORRUPT, variations, METRIC)
    assert found.tolist() == pytest.approx([metric_of(tiny, v) for v in variations], abs=1e-6)


def test_what_a_progress_function_raises_comes_through(tiny):
    def broken(done, of):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        phidias.patch_sweep(tiny, CLEAN, CORRUPT, METRIC, progress=broken)


def test_attribution_is_the_gradient_times_the_difference(tiny):
    values = ["layers[*].mlp.mlp_output", tiny.layers[1].self_attn.attention_output]
    found = phidias.attribute(tiny, CLEAN, CORRUPT, METRIC, values)
    with tiny.trace(CLEAN) as t:
        clean = t.layers[:].mlp.mlp_output.save()
    with tiny.trace(CORRUPT) as t:
        corrupt, slope = t.layers[:].mlp.mlp_output.save(), t.layers[:].mlp.mlp_output.grad.save()
        t.metric = METRIC
    expected = slope * (clean - corrupt)
    assert np.allclose(found[values[0]], expected, atol=1e-6)
    assert found[values[1]].shape == (1, len(CLEAN), 32)
    assert (found.clean, found.corrupt) == pytest.approx(
        (metric_of(tiny, prompt=CLEAN), metric_of(tiny)), abs=1e-6
    )
    integrated = phidias.attribute(
        tiny, CLEAN, CORRUPT, METRIC, "layers[2].layer_output", method="integrated", steps=8
    )
    total = float(integrated["layers[2].layer_output"].sum())
    assert total == pytest.approx(found.clean - found.corrupt, rel=0.05)
    with pytest.raises(ValueError, match="star"):
        phidias.attribute(tiny, CLEAN, CORRUPT, METRIC, values, method="guess")


def test_the_parts_of_a_logit_add_up_to_it(tiny):
    shares = phidias.direct_attribution(tiny, CLEAN, "a", "b")
    assert shares.total == pytest.approx(sum(shares.parts.values()))
    assert shares.total == pytest.approx(metric_of(tiny, prompt=CLEAN), abs=1e-4)
    assert "layers.1.self_attn.attention_output[head=3]" in shares.parts
    coarse = phidias.direct_attribution(tiny, CLEAN, 97, by_heads=False)
    assert len(coarse.parts) == 7 and len(coarse.largest(3)) == 3
    assert "sum" in str(coarse) and "<table" in coarse._repr_html_()
    with pytest.raises(ValueError, match="one token"):
        phidias.direct_attribution(tiny, CLEAN, "ab")


def test_scores_of_heads_are_means_of_their_patterns(tiny):
    scores = phidias.head_scores(tiny, CLEAN, "previous")
    with tiny.trace(CLEAN) as t:
        patterns = t.layers[:].self_attn.attention_probabilities.save()
    expected = np.diagonal(patterns[:, 0], -1, axis1=-2, axis2=-1).mean(-1)
    assert np.allclose(scores.scores, expected, atol=1e-6)
    layer, head, score = scores.best(1)[0]
    assert score == scores.scores.max() == scores.scores[layer, head]
    with pytest.raises(phidias.InvalidArgumentError, match="induction"):
        phidias.head_scores(tiny, CLEAN, "next")


def test_control_vectors_are_vectors_and_files(tiny, tmp_path):
    pairs = [("good good", "bad bad"), ("so glad", "so grim"), ("yes!", "no!!")]
    mean = phidias.contrast(tiny, pairs, method="mean")
    glad = [phidias.get_token_activations(tiny, [p[i] for p in pairs]) for i in (0, 1)]
    assert mean.layers == [1, 2]
    assert np.allclose(mean[2], (glad[0] - glad[1])[2].mean(0), atol=1e-5)
    assert phidias.contrast(tiny, pairs).layers == [1, 2]
    assert np.allclose((2 * mean - mean)[1], mean[1]) and np.allclose((-mean)[1], -mean[1])
    wider = mean + phidias.ControlVector({0: np.ones(32)})
    assert wider.layers == [0, 1, 2]
    mean.save(tmp_path / "joy.gguf")
    again = phidias.ControlVector.load(tmp_path / "joy.gguf")
    assert np.array_equal(again[1], mean[1]) and again.layers == mean.layers
    with pytest.raises(KeyError):
        again[0]
    edits = mean.steer(3, layers=[2], at="last")
    assert len(edits) == 1 and edits == [phidias.steer(2, mean[2], 3, at="last")]
    lines = ["layers[*].layer_output += 3 * " + str(tmp_path / "joy.gguf")]
    assert metric_of(tiny, lines) == metric_of(tiny, mean.steer(3))
    with pytest.raises(ValueError, match="pca_diff"):
        phidias.contrast(tiny, pairs, method="median")
