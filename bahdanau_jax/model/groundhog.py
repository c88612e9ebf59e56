"""Weights as GroundHog, the program of the paper's authors, names them and numbers their rows.

Its matrices multiply row vectors, as ours do, so none is transposed. Its ids are 0 unused, 1 UNK,
then words, and EOS last; ours have EOS at 0, so these two rows change places.
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

# What the sizes of a model are read from: field -> (array, axis).
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
    """The arrays of such a file for a model of these sizes."""
    tree = initialization.shapes(config)
    found = jax.tree.map(lambda name, leaf: (name, leaf.shape), dict(NAMES), dict(tree))
    pairs = dict(jax.tree.leaves(found, is_leaf=lambda x: isinstance(x, tuple)))
    return pairs | {COLUMN: (*pairs[COLUMN], 1)}


def config(arrays: Mapping[str, Any]) -> ModelConfig:
    """The model that such arrays belong to: preset `groundhog`, of their sizes.

    Raises ValueError that names an array which is missing, is none of this layout, or has a shape
    that does not go with the others.
    """
    known = {name for name in jax.tree.leaves(dict(NAMES))}
    for names, what in ((known - set(arrays), "is missing"), (set(arrays) - known, "is unknown")):
        if names:
            raise ValueError(f"{min(names)} {what} (GroundHog's RNNsearch has {len(known)} arrays)")
    for name, axis in SIZES.values():
        if np.ndim(arrays[name]) <= axis:
            raise ValueError(f"{name} has shape {list(np.shape(arrays[name]))}: expected a matrix")
    sizes = {field: int(np.shape(arrays[name])[axis]) for field, (name, axis) in SIZES.items()}
    found = dataclasses.replace(PRESETS["groundhog"], **sizes)
    if min(sizes.values()) < 1:
        raise ValueError(f"{SIZES[min(sizes, key=lambda s: sizes[s])][0]} is empty")
    for name, shape in shapes(found).items():
        if np.shape(arrays[name]) != shape:
            raise ValueError(
                f"{name} has shape {list(np.shape(arrays[name]))}, but the other arrays call for "
                f"{list(shape)}"
            )
    return found


def parameters(arrays: Mapping[str, np.ndarray]) -> Params:
    """Our parameters, float32, from GroundHog's arrays by name.

    Row 0 of ours, EOS, is GroundHog's last; our last is its row 0, which no word has. Raises
    ValueError as `config` does, and where a value is not finite.

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
        return _exchanged(array, WORD_AXES[name]) if name in WORD_AXES else array

    return jax.tree.map(leaf, dict(NAMES))


def _exchanged(array: np.ndarray, axis: int) -> np.ndarray:
    """The first and the last entry along an axis in each other's place."""
    order = np.arange(array.shape[axis])
    order[[0, -1]] = order[[-1, 0]]
    return np.take(array, order, axis)
