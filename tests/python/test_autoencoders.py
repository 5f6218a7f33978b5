"""Sparse autoencoders: what they see of vectors, their files, and edits of their features."""

import pickle

import numpy as np
import phidias
import pytest

TEXT = "The same bits"
VALUE = "layers[1].layer_output"


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "centred"])
def coder(request):
    random = np.random.default_rng(2)
    W_dec = random.normal(size=(48, 32))
    return phidias.Autoencoder(
        W_dec.T, random.normal(size=48), W_dec, random.normal(size=32), centred=request.param
    )


def streams(model, edits=None):
    with model.trace(TEXT, edits=edits) as t:
        before, after = t[VALUE].before.save(), t[VALUE].save()
    return before.numpy(), after.numpy()


def test_features_are_those_of_the_formula(coder):
    x = np.random.default_rng(1).normal(size=(2, 3, 32)).astype(np.float32)
    centre = coder.b_dec if coder.centred else 0
    expected = np.maximum((x - centre) @ coder.W_enc + coder.b_enc, 0)
    features = coder.encode(x)
    assert features.shape == (2, 3, 48) and np.allclose(features, expected, atol=1e-5)
    assert np.allclose(coder.decode(features), features @ coder.W_dec + coder.b_dec, atol=1e-5)
    assert (coder.width, coder.features) == (32, 48)
    with pytest.raises(ValueError, match=r"\[\.\.\., 32\]"):
        coder.encode(np.ones(31))
    with pytest.raises(ValueError, match=r"\[\.\.\., 48\]"):
        coder.decode(np.ones(32))


def test_edits_of_features_keep_what_is_not_seen(tiny, coder):
    edit = phidias.sae(VALUE, coder, set={3: 5.0}, add={7: 1.5}, scale={11: 0})
    before, after = streams(tiny, edit)
    features = coder.encode(before)
    change = (
        (5 - features[..., 3, None]) * coder.W_dec[3]
        + 1.5 * coder.W_dec[7]
        - features[..., 11, None] * coder.W_dec[11]
    )
    assert np.allclose(after, before + change, atol=1e-3)


def test_without_the_error_the_reconstruction_is_all(tiny, coder):
    before, after = streams(tiny, phidias.sae(VALUE, coder, error="drop"))
    assert np.allclose(after, coder.decode(coder.encode(before)), atol=1e-3)


def test_edits_go_through_files_json_and_pickles(tiny, coder, tmp_path):
    path = tmp_path / "sae.safetensors"
    coder.save(path)
    again = phidias.Autoencoder.load(path, centred=coder.centred)
    assert np.array_equal(again.W_enc, coder.W_enc) and np.array_equal(again.b_dec, coder.b_dec)
    edit = phidias.sae(VALUE, coder, set={3: 5.0})
    assert phidias.sae(VALUE, again, set={3: 5.0}) == edit
    assert phidias.Edits.from_json(phidias.Edits([edit]).to_json()) == [edit]
    assert pickle.loads(pickle.dumps(edit)) == edit
    assert np.array_equal(pickle.loads(pickle.dumps(coder)).W_enc, coder.W_enc)
    _, expected = streams(tiny, edit)
    data = {"value": VALUE, "op": "sae", "features": [{"feature": 3, "set": 5}]}
    file = tmp_path / "edits.json"
    centred = "true" if coder.centred else "false"
    text = str(data).replace("'", '"')[:-1] + f', "sae": {{"file": "{path}", "centred": {centred}}}}}'
    file.write_text(f"[{text}]")
    assert np.array_equal(streams(tiny, phidias.Edits.load(file))[1], expected)
    if not coder.centred:
        assert phidias.sae(VALUE, path, set={3: 5.0}) == edit


def test_what_does_not_fit_is_told(tiny, coder):
    with pytest.raises(phidias.InvalidArgumentError, match="feature 48"):
        phidias.sae(VALUE, coder, set={48: 1})
    with pytest.raises(phidias.InvalidArgumentError, match="twice"):
        streams(tiny, phidias.sae(VALUE, coder, set={3: 1}, add={3: 1}))
    with pytest.raises(phidias.InvalidArgumentError, match="fit together"):
        phidias.Autoencoder(np.ones((32, 4)), np.ones(4), np.ones((5, 32)), np.ones(32))
    with pytest.raises(ValueError, match="keep"):
        phidias.sae(VALUE, coder, error="lose")
    with pytest.raises(phidias.InvalidArgumentError):
        streams(tiny, phidias.sae("layers[1].mlp.mlp_neurons", coder, set={3: 1}))
