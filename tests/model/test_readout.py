"""The inputs of readout and update: unread inputs have no parameters."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import CELLS, INITS, READOUT_INPUTS, init, recurrence, shapes
from bahdanau_jax.model.initialization import count
from bahdanau_jax.model.readout import readout
from tests.model.worlds import CONFIGS, SIZES, parameters

E, H, A, C, L = 3, 5, 7, 10, 11


@pytest.mark.parametrize("inputs", READOUT_INPUTS)
def test_the_readout_reads_its_inputs_alone(inputs):
    config = dataclasses.replace(CONFIGS["default"], readout="tanh", readout_inputs=inputs)
    own, rng = parameters(config)["readout"], np.random.default_rng(2)
    vectors = {name: rng.normal(size=(7, n)) for name, n in {"s": H, "y": E, "c": C}.items()}
    matrices = {"s": "U_o", "y": "V_o", "c": "C_o"}
    assert set(own) == {matrices[symbol] for symbol in inputs} | {"b_o"}
    t = sum(vectors[symbol] @ own[matrices[symbol]] for symbol in inputs) + own["b_o"]
    own = jax.tree.map(jnp.asarray, own)
    s, y, c = (jnp.asarray(vectors[symbol], jnp.float32) for symbol in "syc")
    y = y if "y" in inputs else None
    found = readout(config, recurrence.times(own, "float32"), {"readout": own}, s, y, c)
    np.testing.assert_allclose(found, np.tanh(t), atol=1e-5)


def parts(**changes):
    return {name: count(part) for name, part in shapes(ModelConfig(**SIZES, **changes)).items()}


def test_what_is_not_read_has_no_parameters():
    whole = parts()
    assert whole["readout"] == (H + E + C + 1) * 2 * L
    for inputs, missing in {"sy": C, "sc": E, "s": E + C, "yc": H, "c": H + E}.items():
        fewer = whole | {"readout": whole["readout"] - missing * 2 * L}
        assert parts(readout_inputs=inputs) == fewer
    unfed = whole | {"decoder": whole["decoder"] - 3 * E * H}
    assert parts(feed_previous=False) == unfed
    blind = unfed | {"readout": (H + C + 1) * 2 * L, "target_embedding": 0}
    assert parts(feed_previous=False, readout_inputs="sc") == blind
    assert (
        shapes(ModelConfig(**SIZES, feed_previous=False, readout_inputs="s"))["target_embedding"]
        == {}
    )


def test_the_second_cell_and_the_words_of_annotations_have_parameters():
    whole = parts()
    both = 3 * (E * H + H * H + H) + 3 * (C * H + H * H + H)
    assert parts(order="conditional") == whole | {"decoder": both}
    unfed = parts(order="conditional", feed_previous=False)
    assert unfed == whole | {"decoder": both - 3 * E * H}
    larger = {"attention": E * A, "decoder": 3 * E * H, "readout": E * 2 * L}
    words = parts(word_annotations=True)
    assert words == whole | {name: whole[name] + size for name, size in larger.items()}
    drawn = init(ModelConfig(**SIZES, order="conditional"), jax.random.key(1))["decoder"]
    assert not np.array_equal(drawn["U"], drawn["second"]["U"])


def test_the_layers_of_the_mlp_cell():
    """M_x and M_h have H/2 and H units and a bias each; the decoder's x is [previous word; c]."""
    half = H // 2
    of_h = H * half + half + half * H + H
    both = parts(cell="mlp")
    assert both["encoder"] == 2 * (E * half + half + half * H + H + of_h)
    assert both["decoder"] == (E + C) * half + half + half * H + H + of_h
    assert parts(cell="mlp", feed_previous=False)["decoder"] == both["decoder"] - E * half
    p = CELLS["mlp"].init(jax.random.key(1), INITS["paper"], {"W": 83, "C": 89}, 96, True)
    assert np.abs(p["U"].T @ p["U"] - np.eye(48)).max() < 1e-5
    assert np.abs(p["U_2"] @ p["U_2"].T - np.eye(48)).max() < 1e-5
    assert all(0.009 < np.std(p[name]) < 0.011 for name in ("W", "C", "W_2"))
    assert not any(leaf.any() for leaf in p.values() if leaf.ndim == 1)
