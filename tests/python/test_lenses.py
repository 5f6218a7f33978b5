"""Helpers by nnterp's names."""

import numpy as np
import phidias
import pytest
from phidias.lenses import softmax


def test_the_last_layers_lens_is_the_model(tiny):
    prompts = ["abc", "a longer one"]
    lens = phidias.logit_lens(tiny, prompts)
    assert lens.shape == (2, 3, 260)
    assert np.allclose(lens.sum(-1), 1, atol=1e-5)
    for prompt, one in zip(prompts, lens):
        with tiny.trace(prompt) as t:
            logits, stream = t.logits[:, -1].save(), t.layers[2].layer_output.save()
            every = t.logits.save()
        assert np.array_equal(one[-1], softmax(logits)[0])
        assert np.array_equal(tiny.project_on_vocab(stream), every)
    both = phidias.logit_lens(tiny, prompts, return_inv_logits=True)
    assert np.array_equal(both[0], lens) and both[1].shape == lens.shape
    assert np.allclose(phidias.compute_next_token_probs(tiny, prompts), lens[:, -1], atol=1e-6)


def test_projecting_more_vectors_than_a_context_holds(tiny):
    vectors = np.random.default_rng(0).normal(size=(3, 200, 32)).astype(np.float32)
    logits = tiny.project_on_vocab(vectors)
    assert logits.shape == (3, 200, 260)
    assert np.array_equal(logits[2, 199], tiny.project_on_vocab(vectors[2, 199]))
    with pytest.raises(ValueError, match="32"):
        tiny.project_on_vocab(np.ones(31))


def test_the_closest_tokens_have_texts(tiny):
    with tiny.trace("abc") as t:
        stream, probabilities = t.layers[2].layer_output.save(), t.next_token_probs.save()
    closest = tiny.get_topk_closest_tokens(stream[0], k=3)
    assert len(closest) == 3 and all(len(one) == 3 for one in closest)
    best = int(probabilities[0].argmax())
    assert next(iter(closest[-1].values())) == pytest.approx(float(probabilities[0, best]), rel=1e-4)


def test_a_lens_at_every_position_prints_as_a_table(tiny):
    lens = tiny.lens("abc", topk=2)
    assert lens.ids.shape == (3, 3, 2) and lens.probabilities.shape == (3, 3, 2)
    with tiny.trace("abc") as t:
        logits = t.logits.save()
    assert np.array_equal(lens.ids[2, :, 0], logits[0].argmax(-1))
    assert len(str(lens).splitlines()) == 4
    assert lens._repr_html_().count("<tr>") == 4


def test_a_patchscope_onto_itself_is_the_model(tiny):
    ids = tiny.encode("abcd")
    target = phidias.TargetPrompt(ids, -1)
    found = phidias.patchscope_lens(tiny, [ids], target)
    with tiny.trace(ids) as t:
        probabilities = t.next_token_probs.save()
    assert found.shape == (1, 3, 260)
    assert all(np.array_equal(row, probabilities[0]) for row in found[0])
    other = phidias.patchscope_lens(tiny, ["another"], target)
    assert not np.array_equal(other[0, 2], probabilities[0])
    # At the last layer the source's own answer comes out.
    assert np.allclose(other[0, 2], phidias.compute_next_token_probs(tiny, "another")[0], atol=1e-6)


def test_patchscopes_take_prompts_or_latents_and_tell_what_does_not_fit(tiny):
    target = phidias.repeat_prompt()
    assert target.prompt.endswith("\n?") and target.index_to_patch == -1
    latents = np.zeros((3, 2, 32), np.float32)
    assert phidias.patchscope_lens(tiny, None, target, latents=latents).shape == (2, 3, 260)
    with pytest.raises(ValueError, match="not both"):
        phidias.patchscope_lens(tiny, ["a"], target, latents=latents)
    with pytest.raises(ValueError, match="not both"):
        phidias.patchscope_lens(tiny, None, target)
    with pytest.raises(ValueError, match="as many"):
        phidias.patchscope_lens(tiny, ["a", "b"], [target])


def test_a_patched_target_goes_on(tiny):
    target = phidias.TargetPrompt(tiny.encode("xy?"), -1)
    found = phidias.patchscope_generate(tiny, ["source"], target, max_length=4, layers=[0, 2])
    assert set(found) == {0, 2}
    assert len(found[2][0]) == 3 + 4 and found[2][0][:3] == target.prompt
    # The last layer's stream is the source's: so is the first answer.
    assert found[2][0][3] == tiny.generate("source", max_new_tokens=1, stop_ids=[]).ids[0]


def test_attention_that_reads_its_own_input_again_changes_nothing(tiny):
    ids = tiny.encode("abcd")
    found = phidias.patch_object_attn_lens(tiny, [ids], [ids], -1, num_patches=2)
    plain = phidias.compute_next_token_probs(tiny, [ids])
    assert found.shape == (1, 3, 260)
    assert all(np.array_equal(row, plain[0]) for row in found[0])
    moved = phidias.patch_object_attn_lens(tiny, ["source"], [ids], 1, num_patches=3)
    assert np.abs(moved[0, 0] - plain[0]).max() > 1e-5


def test_prompts_have_targets_with_masses(tiny):
    prompt = phidias.Prompt.from_strings("abc", {"letter": ["x", "y"], "digit": "1"}, tiny)
    assert prompt.target_tokens == {"letter": [120, 121], "digit": [49]}
    assert prompt.has_no_collisions()
    assert not phidias.Prompt("abc", {"a": [1], "b": [1, 2]}).has_no_collisions()
    lens = phidias.logit_lens(tiny, "abc")
    masses = phidias.run_prompts(
        tiny, [prompt, prompt], batch_size=1, get_probs_func=phidias.logit_lens
    )
    assert masses["letter"].shape == (2, 3)
    assert np.allclose(masses["letter"][0], lens[0][:, [120, 121]].sum(-1))
    assert np.allclose(prompt.run(tiny)["digit"][0], lens[0][:, 49])
    own = phidias.run_prompts(tiny, [prompt])
    assert own["letter"].shape == (1, 1)
    assert np.allclose(own["letter"][0], masses["letter"][0, -1])
    with pytest.raises(ValueError, match="same targets"):
        phidias.run_prompts(tiny, [prompt, phidias.Prompt("a", {"letter": [1]})])
    assert phidias.run_prompts(tiny, []) == {}


def test_first_tokens_are_of_the_word_and_not_of_the_space(tiny):
    assert phidias.get_first_tokens(["xy", "z"], tiny) == [120, 122]
    with pytest.raises(phidias.TokenizationError):
        phidias.get_first_tokens(" ", tiny)


def test_activations_at_a_position(tiny):
    prompts = ["abc", "de"]
    found = phidias.get_token_activations(tiny, prompts)
    assert found.shape == (3, 2, 32)
    with tiny.trace("de") as t:
        stream = t.layers[1].layer_output.save()
    assert np.array_equal(found[1, 1], stream[0, -1])
    first = phidias.get_token_activations(tiny, prompts, [1], "mlp_neurons", idx=0)
    assert first.shape == (1, 2, 48)
    by_function = phidias.get_token_activations(
        tiny, prompts, [1], lambda t, layer: t.layers[layer].mlp.mlp_neurons, idx=0
    )
    assert np.array_equal(first, by_function)
    batched = phidias.collect_token_activations_batched(tiny, prompts, batch_size=1)
    assert np.array_equal(batched, found)
    assert np.array_equal(phidias.collect_last_token_activations_session(tiny, prompts, 2), found)
    with tiny.trace("de") as t:
        saved = phidias.get_token_activations(tiny, layers=[1], tracer=t)
    assert np.array_equal(saved[0].numpy()[0, 0], found[1, 1])
    with pytest.raises(ValueError, match="tracer"):
        phidias.get_token_activations(tiny)


def test_steering_inside_a_trace_is_the_edit(tiny):
    vector = np.linspace(-1, 1, 32)
    with tiny.trace("abc") as t:
        tiny.steer([0, 2], vector, factor=2, token_positions=-1)
        one = t.logits.save()
    with tiny.trace("abc", edits=phidias.steer([0, 2], vector, 2, at=-1)) as t:
        other = t.logits.save()
    assert np.array_equal(one, other)
    assert t.touched == [1, 1]


def test_edits_can_be_in_force_for_a_while(tiny):
    plain = phidias.compute_next_token_probs(tiny, "abc")
    with tiny.edited(phidias.skip_layers(1, 1)):
        skipped = phidias.compute_next_token_probs(tiny, "abc")
        with tiny.edited("layers[0].mlp.mlp_output *= 0"):
            more = phidias.compute_next_token_probs(tiny, "abc")
    assert np.array_equal(phidias.compute_next_token_probs(tiny, "abc"), plain)
    assert not np.array_equal(plain, skipped) and not np.array_equal(skipped, more)


def test_a_real_models_lens_ends_in_its_answer(real):
    lens = phidias.logit_lens(real, "The capital of France is")
    with real.trace("The capital of France is") as t:
        probabilities = t.next_token_probs.save()
    assert real.decode([int(lens[0, -1].argmax())]) == " Paris"
    assert int(probabilities[0].argmax()) == int(lens[0, -1].argmax())
    assert lens[0, 0].argmax() != lens[0, -1].argmax()
