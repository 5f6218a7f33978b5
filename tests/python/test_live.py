"""Live runs: straight-line code that decides on what it sees."""

import numpy as np
import phidias
import pytest

TEXT = "The same bits"


def test_code_reads_decides_and_writes(tiny):
    seen = {}

    def body(m):
        x = yield m.layers[1].layer_output
        seen["x"] = x.copy()
        if x[0, -1, 0] < 100:
            x[0, -1] += 1
        y = yield m.layers[2].layer_input
        seen["y"] = y
        logits = yield m.logits
        seen["logits"] = logits

    run = tiny.run(TEXT, body)
    assert run.tokens == []
    expected = seen["x"].copy()
    expected[0, -1] += 1
    assert np.array_equal(seen["y"], expected)
    with tiny.trace(TEXT) as t:
        t.layers[1].layer_output[:, -1] += 1
        logits = t.logits.save()
    assert np.array_equal(seen["logits"][0, 0], logits[0, -1])


def test_a_pass_begins_the_code_anew(tiny):
    places = []

    def body(m):
        places.append((m.step, m.position, len(m.tokens)))
        x = yield m.layers[0].mlp.mlp_output
        places[-1] += (x.shape[1],)

    run = tiny.run(TEXT, body, generate=3)
    assert places == [(0, 0, 13, 13), (1, 13, 14, 1), (2, 14, 15, 1)]
    assert run.tokens == tiny.generate(TEXT, max_new_tokens=3, stop_ids=[]).ids


def test_looking_changes_nothing(tiny):
    def body(m):
        for layer in range(3):
            yield m.layers[layer].layer_input
            yield m.layers[layer].self_attn.attention_queries
            yield m.layers[layer].mlp.mlp_neurons
        yield m.final_norm_output

    run = tiny.run(TEXT, body, generate=5)
    assert run.tokens == tiny.generate(TEXT, max_new_tokens=5, stop_ids=[]).ids


def test_side_computations_do_not_disturb_the_run(tiny):
    found = []

    def body(m):
        x = yield m.layers[2].layer_output
        found.append(m.project_on_vocab(x[0, -1]))
        logits = yield m.logits
        found.append(logits[0, 0])

    tiny.run(TEXT, body)
    assert np.array_equal(*found)


def test_patterns_are_seen_whole_and_can_be_written(tiny):
    """What was written before them is in them, and what is written into them counts."""
    ones = np.linspace(-1, 1, 32).astype(np.float32)
    seen = {}

    def body(m):
        x = yield m.layers[0].layer_output
        x[0, 3] += ones
        scores = yield m.layers[1].self_attn.attention_scores
        seen["scores"] = scores.copy()
        scores[0, 0, 1:, 0] = -3.4028234663852886e38
        pattern = yield m.layers[1].self_attn.attention_probabilities
        seen["pattern"] = pattern.copy()
        pattern[0, 2] = np.eye(13)
        y = yield m.layers[1].layer_output
        seen["y"] = y
        later = yield m.layers[2].self_attn.attention_probabilities
        seen["later"] = later
        logits = yield m.logits
        seen["logits"] = logits

    tiny.run(TEXT, body, patterns=[1, -1])
    with tiny.trace(TEXT) as t:
        t.layers[0].layer_output[0, 3] += ones
        scores = t.layers[1].self_attn.attention_scores.before.save()
        t.layers[1].self_attn.attention_scores[:, 0, 1:, 0] = phidias.hidden
        pattern = t.layers[1].self_attn.attention_probabilities.before.save()
        t.layers[1].self_attn.attention_probabilities[0, 2] = np.eye(13)
        y = t.layers[1].layer_output.save()
        later = t.layers[2].self_attn.attention_probabilities.save()
        logits = t.logits[:, -1:].save()
    assert seen["scores"].shape == (1, 4, 13, 13)
    for name, expected in (("scores", scores), ("pattern", pattern), ("y", y), ("later", later)):
        assert np.array_equal(seen[name], expected), name
    assert np.array_equal(seen["logits"], logits)


def test_looking_at_patterns_changes_nothing_step_by_step(tiny):
    shapes = []

    def body(m):
        pattern = yield m.layers[0].self_attn.attention_probabilities
        assert np.allclose(pattern.sum(-1), 1, atol=1e-5)
        shapes.append(pattern.shape)

    run = tiny.run(TEXT, body, generate=3, patterns=0)
    assert shapes == [(1, 4, 13, 13), (1, 4, 1, 14), (1, 4, 1, 15)]
    assert run.tokens == tiny.generate(TEXT, max_new_tokens=3, stop_ids=[]).ids


def test_code_stops_the_run(tiny):
    seen = []

    def body(m):
        yield m.layers[0].layer_output
        seen.append(m.step)
        if m.step == 2:
            m.stop()
        yield m.layers[1].layer_output
        seen.append("on")

    run = tiny.run(TEXT, body, generate=10)
    assert seen == [0, "on", 1, "on", 2]
    assert run.stopped and run.tokens == tiny.generate(TEXT, max_new_tokens=2, stop_ids=[]).ids
    with pytest.raises(RuntimeError, match="was stopped"):
        run.touched

    def at_once(m):
        m.stop()
        yield m.layers[0].layer_output
        seen.append("never")

    assert tiny.run(TEXT, at_once).stopped and "never" not in seen


def test_a_function_ends_a_trace(tiny):
    with pytest.raises(phidias.CancelledError):
        with tiny.trace(TEXT, generate=5) as t:
            t.layers[0].layer_output.edit(lambda x, where: where.end_run())


@pytest.mark.parametrize(
    ("wait", "why"),
    [
        (lambda m: m.layers[0].layer_output, "passed it already"),
        (lambda m: m.layers[1].layer_output, "passed it already"),
        (lambda m: m.token_embeddings, "passed it already"),
        (lambda m: m.layers[2].self_attn.attention_scores, "beforehand: patterns="),
        (lambda m: m.next_token_probs, "derived"),
        (lambda m: m.layers[2].layer_output[:, 0], "whole value"),
        (lambda m: 7, "yields values"),
    ],
)
def test_what_cannot_be_waited_for_fails_at_that_line(tiny, wait, why):
    lines = []

    def body(m):
        yield m.layers[1].layer_output
        lines.append("before")
        try:
            yield wait(m)
        except RuntimeError as error:
            lines.append(str(error))
            raise

    with pytest.raises(RuntimeError, match=why):
        tiny.run(TEXT, body)
    assert lines[0] == "before" and why in lines[1]


def test_an_exception_in_the_code_comes_through(tiny):
    def body(m):
        yield m.layers[1].layer_output
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tiny.run(TEXT, body)


def test_a_prompt_longer_than_a_pass_is_told(tiny_path):
    model = phidias.Model(tiny_path, step_rows=8)

    def body(m):
        yield m.layers[1].layer_output

    with pytest.raises(phidias.CapacityExceededError, match="step_rows=13"):
        model.run(TEXT, body)
