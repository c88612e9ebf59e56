"""GroundHog's weights: its equations with its names and ids, compared with our model."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax import model
from bahdanau_jax.batch import START
from bahdanau_jax.config import PRESETS
from bahdanau_jax.model import decoder, groundhog
from tests import oracles
from tests.model import worlds

# The layout for E 3, H 5, A 7, L 11, output 13, 23 and 29 rows; written out, not computed.
E, H, A, L, M, VS, VT = 3, 5, 7, 11, 13, 23, 29
SHAPES = {
    "W_0_enc_approx_embdr": (VS, E),
    "b_0_enc_approx_embdr": (E,),
    "W_0_dec_approx_embdr": (VT, E),
    "b_0_dec_approx_embdr": (E,),
    **{
        name.format(p): shape
        for p in ("enc", "back_enc", "dec")
        for name, shape in {
            "W_0_{}_input_embdr_0": (E, H),
            "b_0_{}_input_embdr_0": (H,),
            "W_0_{}_update_embdr_0": (E, H),
            "W_0_{}_reset_embdr_0": (E, H),
            "W_{}_transition_0": (H, H),
            "G_{}_transition_0": (H, H),
            "R_{}_transition_0": (H, H),
        }.items()
    },
    "A_dec_transition_0": (2 * H, A),
    "B_dec_transition_0": (H, A),
    "D_dec_transition_0": (A, 1),
    "W_0_dec_initializer_0": (H, H),
    "b_0_dec_initializer_0": (H,),
    "W_0_dec_dec_inputter_0": (2 * H, H),
    "W_0_dec_dec_updater_0": (2 * H, H),
    "W_0_dec_dec_reseter_0": (2 * H, H),
    "W_0_dec_hid_readout_0": (H, 2 * L),
    "b_0_dec_hid_readout_0": (2 * L,),
    "W_0_dec_prev_readout_0": (E, 2 * L),
    "W_0_dec_repr_readout": (2 * H, 2 * L),
    "W1_dec_deep_softmax": (L, M),
    "W2_dec_deep_softmax": (M, VT),
    "b_dec_deep_softmax": (VT,),
}


def arrays(seed: int = 0) -> dict[str, np.ndarray]:
    """A synthetic file of that layout; values are float32 numbers held in float64."""
    rng = np.random.default_rng(seed)
    draw = lambda shape: rng.normal(0, 0.7, shape).astype(np.float32).astype(np.float64)  # noqa: E731
    return {name: draw(shape) for name, shape in SHAPES.items()}


def theirs(ids, rows: int) -> list[int]:
    """Our ids as GroundHog's: EOS is 0 here and the last row there; the unused one likewise."""
    return [{0: rows - 1, rows - 1: 0}.get(i, i) for i in ids]


def test_logits_equal_those_of_the_equations_on_groundhogs_names():
    weights, config = arrays(), groundhog.config(arrays())
    params = jax.tree.map(jnp.asarray, groundhog.parameters(weights))
    source, target = [4, 22, 1, 9, 0], [7, 28, 1, 2, 0]
    expected = oracles.groundhog_log_probabilities(weights, theirs(source, VS), theirs(target, VT))
    mask = jnp.ones((1, len(source)), bool)
    memory = worlds.compiled(model.encode, static_argnums=0)(
        config, params, jnp.array([source]), mask
    )
    step, state = worlds.compiled(decoder.stepper(config, params, memory)), model.start(memory)
    for i, before in enumerate([START, *target[:-1]]):
        log_p, state, _ = step(jnp.array([before]), state)
        ours = np.asarray(log_p)[0, theirs(range(VT), VT)]
        assert worlds.relative(ours, expected[i]) < 1e-5
        assert ours.argmax() == expected[i].argmax()


def test_the_layout_is_that_of_the_models_own_sizes():
    config = groundhog.config(arrays())
    expected = dataclasses.replace(PRESETS["groundhog"], **worlds.SIZES | {"output_size": M})
    assert config == expected
    assert groundhog.shapes(config) == SHAPES


def test_at_paper_size_there_are_84349101_weights():
    """The shapes alone agree, in the layout of the file and in ours."""
    config = dataclasses.replace(
        PRESETS["groundhog"], source_vocabulary=30_001, target_vocabulary=30_001
    )
    shapes = groundhog.shapes(config)
    assert sum(map(math.prod, shapes.values())) == 84_349_101
    assert shapes["W_0_dec_dec_inputter_0"] == (2000, 1000)
    hollow = {name: np.broadcast_to(np.float32(0), shape) for name, shape in shapes.items()}
    assert groundhog.config(hollow) == config


def test_a_fault_is_named():
    whole = arrays()
    cases = {
        "b_dec_deep_softmax is missing": {k: v for k, v in whole.items() if k[:3] != "b_d"},
        "W_spare is unknown": whole | {"W_spare": np.zeros(3)},
        r"W_0_dec_dec_inputter_0 has shape \[5, 10\], but the other arrays call for \[10, 5\]": (
            whole | {"W_0_dec_dec_inputter_0": whole["W_0_dec_dec_inputter_0"].T}
        ),
        r"D_dec_transition_0 has shape \[7\]": whole | {"D_dec_transition_0": np.zeros(7)},
        "W_enc_transition_0 has shape .*: expected a matrix": whole
        | {"W_enc_transition_0": np.float64(3)},
        "W_0_dec_approx_embdr is empty": whole | {"W_0_dec_approx_embdr": np.zeros((0, E))},
        "G_enc_transition_0 holds values that are not finite": whole
        | {"G_enc_transition_0": np.full((H, H), np.nan)},
    }
    for message, broken in cases.items():
        with pytest.raises(ValueError, match=message):
            groundhog.parameters(broken)
