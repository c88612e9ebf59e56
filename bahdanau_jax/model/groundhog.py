"""Weights of GroundHog, the program of the paper's authors: their names and their conversion.

Its matrices multiply row vectors, as ours do, so none is transposed. Its id 0 is unused, 1 is UNK,
words follow, and EOS is last. Our EOS is 0, so the first and the last row change places.
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from bahdanau_jax.config import PRESETS, ModelConfig
from bahdanau_jax.model import initialization
from bahdanau_jax.model.parameters import Params


def _cell(part: str) -> dict[str, str]:
    return {
        "W": f"W_0_{part}_input_embdr_0",
        "b": f"b_0_{part}_input_embdr_0",
        "W_z": f"W_0_{part}_update_embdr_0",
        "W_r": f"W_0_{part}_reset_embdr_0",
        "U": f"W_{part}_transition_0",
        "U_z": f"G_{part}_transition_0",
        "U_r": f"R_{part}_transition_0",
    }


# Our tree of parameters, with GroundHog's names for leaves.
NAMES: Mapping[str, Any] = MappingProxyType(
    {
        "source_embedding": {"E": "W_0_enc_approx_embdr", "b": "b_0_enc_approx_embdr"},
        "target_embedding": {"E": "W_0_dec_approx_embdr", "b": "b_0_dec_approx_embdr"},
        "encoder": {"forward": _cell("enc"), "backward": _cell("back_enc")},
        "initial_state": {"W_s": "W_0_dec_initializer_0", "b_s": "b_0_dec_initializer_0"},
        "attention": {
            "U_a": "A_dec_transition_0",
            "W_a": "B_dec_transition_0",
            "v_a": "D_dec_transition_0",
        },
        "decoder": {
            **_cell("dec"),
            "C": "W_0_dec_dec_inputter_0",
            "C_z": "W_0_dec_dec_updater_0",
            "C_r": "W_0_dec_dec_reseter_0",
        },
        "readout": {
            "U_o": "W_0_dec_hid_readout_0",
            "b_o": "b_0_dec_hid_readout_0",
            "V_o": "W_0_dec_prev_readout_0",
            "C_o": "W_0_dec_repr_readout",
        },
        "output": {
            "W_1": "W1_dec_deep_softmax",
            "W_o": "W2_dec_deep_softmax",
            "b_w": "b_dec_deep_softmax",
        },
    }
)

# Arrays with an entry for each word, and the axis that counts them.
WORD_AXES: Mapping[str, int] = MappingProxyType(
    {
        "W_0_enc_approx_embdr": 0,
        "W_0_dec_approx_embdr": 0,
        "W2_dec_deep_softmax": 1,
        "b_dec_deep_softmax": 0,
    }
)
COLUMN = "D_dec_transition_0"  # v_a, kept as a matrix of one column

# Where the sizes of a model are read: field -> (array, axis).
SIZES: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "source_vocabulary": ("W_0_enc_approx_embdr", 0),
        "target_vocabulary": ("W_0_dec_approx_embdr", 0),
        "embedding_size": ("W_0_enc_approx_embdr", 1),
        "hidden_size": ("W_enc_transition_0", 0),
        "alignment_size": ("A_dec_transition_0", 1),
        "readout_size": ("W1_dec_deep_softmax", 0),
        "output_size": ("W1_dec_deep_softmax", 1),
    }
)


def shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Return the shape of each of GroundHog's arrays for a model of these sizes."""
    tree = initialization.shapes(config)
    pairs = jax.tree.map(lambda name, leaf: (name, leaf.shape), dict(NAMES), dict(tree))
    sizes = dict(jax.tree.leaves(pairs, is_leaf=lambda x: isinstance(x, tuple)))
    return sizes | {COLUMN: (*sizes[COLUMN], 1)}


def config(arrays: Mapping[str, Any]) -> ModelConfig:
    """Return the configuration of the model in these arrays: preset `groundhog`, with their sizes.

    Raises ValueError with the name of an array that is missing, is unknown, or has a shape that
    does not fit the others.
    """
    names = set(jax.tree.leaves(dict(NAMES)))
    for wrong, problem in ((names - set(arrays), "missing"), (set(arrays) - names, "unknown")):
        if wrong:
            raise ValueError(
                f"{min(wrong)} is {problem} (GroundHog's RNNsearch has {len(names)} arrays)"
            )
    for name, axis in SIZES.values():
        if np.ndim(arrays[name]) <= axis:
            raise ValueError(f"{name} has shape {list(np.shape(arrays[name]))}: expected a matrix")
    sizes = {field: int(np.shape(arrays[name])[axis]) for field, (name, axis) in SIZES.items()}
    model = dataclasses.replace(PRESETS["groundhog"], **sizes)
    if min(sizes.values()) < 1:
        raise ValueError(f"{SIZES[min(sizes, key=lambda s: sizes[s])][0]} is empty")
    for name, shape in shapes(model).items():
        if np.shape(arrays[name]) != shape:
            raise ValueError(
                f"{name} has shape {list(np.shape(arrays[name]))}, but the other arrays call for "
                f"{list(shape)}"
            )
    return model


def parameters(arrays: Mapping[str, np.ndarray]) -> Params:
    """Convert GroundHog's arrays, by name, to our parameters in float32.

    Our row 0, EOS, is GroundHog's last row; our last row is its row 0, which no word has. Raises
    ValueError as `config` does, and for values that are not finite.

    >>> with np.load("search_model.npz") as file:
    ...     params = parameters(dict(file))
    """
    config(arrays)

    def leaf(name: str) -> np.ndarray:
        array = np.asarray(arrays[name], np.float32)
        if not np.isfinite(array).all():
            raise ValueError(f"{name} holds values that are not finite")
        if name == COLUMN:
            return array[:, 0]
        return _swap_ends(array, WORD_AXES[name]) if name in WORD_AXES else array

    return jax.tree.map(leaf, dict(NAMES))


def _swap_ends(array: np.ndarray, axis: int) -> np.ndarray:
    """Swap the first and the last entry along an axis."""
    order = np.arange(array.shape[axis])
    order[[0, -1]] = order[[-1, 0]]
    return np.take(array, order, axis)
