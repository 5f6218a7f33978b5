"""Gradients of metrics at named values."""

import json

import numpy as np
import phidias
import pytest
from safetensors.numpy import load_file

TEXT = "Gradients"


def metric_of(model, ids, metric, edits=None):
    """The metric's value; gradients at the embeddings come along."""
    with model.trace(ids, edits=edits) as t:
        t.token_embeddings.grad.save()
        t.metric = metric
    return t.metric_value


def test_the_metric_is_what_the_logits_say(tiny):
    ids = tiny.encode(TEXT)
    with tiny.trace(ids) as t:
        logits = t.logits.save()
    last = logits[0, -1].astype(np.float64)
    probabilities = np.exp(last - last.max()) / np.exp(last - last.max()).sum()
    assert metric_of(tiny, ids, phidias.logit("a")) == pytest.approx(last[97], rel=1e-5)
    assert metric_of(tiny, ids, phidias.logit_diff(97, "b")) == pytest.approx(last[97] - last[98], rel=1e-4)
    assert metric_of(tiny, ids, phidias.log_prob(97)) == pytest.approx(np.log(probabilities[97]), rel=1e-4)
    both = phidias.logit("a") - 2 * phidias.logit("b", at=0)
    expected = last[97] - 2 * logits[0, 0, 98]
    assert metric_of(tiny, ids, both) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    "path", ["layers[0].layer_output", "layers[1].mlp.mlp_neurons", "layers[1].attention_queries"]
)
def test_gradients_are_slopes(tiny, path):
    ids = tiny.encode(TEXT)
    metric = phidias.log_prob("s")
    with tiny.trace(ids) as t:
        value = t[path].save()
        gradient = t[path].grad.save()
        t.metric = metric
    assert gradient.shape == value.shape
    direction = np.random.default_rng(5).normal(size=value.shape).astype(np.float32)
    step = 1e-2 / np.abs(direction).max()
    up, down = (
        metric_of(tiny, ids, metric, phidias.Edit.make(path, "set", value + sign * step * direction))
        for sign in (1, -1)
    )
    slope = (up - down) / (2 * step)
    assert slope == pytest.approx(float((gradient * direction).sum()), rel=2e-2, abs=1e-3)


def test_a_part_and_several_layers_of_gradients(tiny):
    with tiny.trace(TEXT) as t:
        whole = t.layers[1].layer_output.grad.save()
        part = t.layers[1].layer_output.grad[:, -1].save()
        every = t.layers[:].layer_output.grad.save()
        t.metric = phidias.logit("a")
    assert np.array_equal(part, whole[:, -1])
    assert every.shape == (3, 1, 9, 32) and np.array_equal(every[1], whole)


def test_attribution_is_exact_where_the_metric_is_linear(tiny):
    metric = phidias.logit_diff("a", "b")
    with tiny.trace("clean text") as t:
        clean = t.final_norm_output.save()
        gradient = t.final_norm_output.grad.save()
        t.metric = metric
    with tiny.trace("other text") as other:
        corrupt = other.final_norm_output.save()
    predicted = float(((corrupt - clean) * gradient).sum())
    moved = metric_of(tiny, "other text", metric) - t.metric_value
    assert predicted == pytest.approx(moved, rel=1e-4, abs=1e-5)
    assert float(((clean - clean) * gradient).sum()) == 0


def test_a_probe_is_a_metric(tiny):
    probe = np.linspace(-1, 1, 32)
    with tiny.trace(TEXT) as t:
        stream = t.layers[1].layer_output.save()
        gradient = t.layers[1].layer_output.grad.save()
        t.metric = phidias.dot(tiny.layers[1].layer_output.at("last"), probe)
    assert t.metric_value == pytest.approx(float(stream[0, -1] @ probe), rel=1e-5)
    assert np.allclose(gradient[0, -1], probe, atol=1e-6) and (gradient[0, :-1] == 0).all()


def test_what_gradients_need_is_told(tiny):
    with pytest.raises(ValueError, match="metric"):
        with tiny.trace(TEXT) as t:
            t.layers[1].layer_output.grad.save()
    with pytest.raises(phidias.InvalidArgumentError, match="generat"):
        with tiny.trace(TEXT, generate=3) as t:
            t.layers[1].layer_output.grad.save()
            t.metric = phidias.logit("a")
    with pytest.raises(phidias.InvalidArgumentError):
        with tiny.trace(TEXT) as t:
            t.layers[1].layer_output.grad.save()
            t.metric = phidias.logit("more than one token")
    with pytest.raises(TypeError, match="no metric"):
        with tiny.trace(TEXT) as t:
            t.metric = 3


@pytest.mark.parametrize("variant", ["mini-4k", "medium-4k", "mini-128k", "phi-4-mini"])
def test_gradients_are_the_references(reference, variant):
    folder = reference / "models" / variant
    golden = load_file(folder / "train.safetensors")
    train = json.loads((folder / "cases.json").read_text())["train"]
    model = phidias.Model(folder, numerics="exact")
    names = [name for name in golden if name.startswith("value_grad.")]
    with model.trace(train["sequences"][0]) as t:
        found = {name: t[name.removeprefix("value_grad.")].grad.save() for name in names}
        t.metric = phidias.logit_diff(11, 22)
    assert len(names) > 30
    for name in names:
        expected = golden[name]
        assert np.abs(found[name] - expected).max() <= 1e-4 * np.abs(expected).max(), name
