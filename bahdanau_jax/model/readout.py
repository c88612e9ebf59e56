"""The readout: from state, previous word and context to the inputs of the output softmax.

H units, E embedding, C annotation size, L readout, M inputs of the softmax, V vocabulary.
Source: arXiv 1409.0473, section A.2.2.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model.attention import annotation_size
from bahdanau_jax.model.matrix_products import matmul, transposed
from bahdanau_jax.model.parameters import INITS, Params, add_bias, draw, zeros
from bahdanau_jax.model.recurrence import Dot


class Readout(NamedTuple):
    """The activation of t̃ = U_o s + V_o ȳ + C_o c + b_o."""

    width: int  # units of t̃ for each unit of t
    apply: Callable[[Array], Array]  # t̃ [..., width·L] -> t [..., L]


@jax.custom_jvp
def maxout(t: Float[Array, "*X P"]) -> Float[Array, "*X P//2"]:
    """Return the larger of each adjacent pair (A.2.2); P = 2L in, L out. Ties share the gradient.

    JAX's own gradient of a maximum first counts the ties, which takes as long as the rest of the
    readout. Slices also avoid a reduction: XLA on a CPU would fuse it with the products before and
    after it into one slower kernel.
    """
    return jnp.maximum(t[..., ::2], t[..., 1::2])


@maxout.defjvp
def _maxout_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (t,), (d,) = primals, tangents
    first = (jnp.sign(t[..., ::2] - t[..., 1::2]) + 1) / 2  # 1, 0, or 1/2 for a tie
    return maxout(t), first * d[..., ::2] + (1 - first) * d[..., 1::2]


# Value of `model.readout` -> the activation.
READOUTS: Mapping[str, Readout] = MappingProxyType(
    {"maxout": Readout(2, maxout), "tanh": Readout(1, jnp.tanh), "linear": Readout(1, lambda t: t)}
)

# Value of `model.readout_inputs` -> the matrices of t̃, for the state s, the previous word y and the
# context c. A readout of y alone would know nothing of the source.
READOUT_INPUTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "syc": ("U_o", "V_o", "C_o"),
        "sy": ("U_o", "V_o"),
        "sc": ("U_o", "C_o"),
        "s": ("U_o",),
        "yc": ("V_o", "C_o"),
        "c": ("C_o",),
    }
)


def init_readout(key: Key[Array, ""], config: ModelConfig) -> dict[str, Array]:
    """Draw b_o and the matrices of `readout_inputs`, each as wide as the readout's t̃."""
    weight, size = INITS[config.init].weight, config.readout_size * READOUTS[config.readout].width
    rows = {
        "U_o": config.hidden_size,
        "V_o": config.embedding_size,
        "C_o": annotation_size(config),
    }
    names = READOUT_INPUTS[config.readout_inputs]
    shapes = {name: (weight, (rows[name], size)) for name in names}
    return draw(key, shapes | {"b_o": zeros(size)})


def softmax_inputs(config: ModelConfig) -> int:
    """Return M: `output_size`, or the size of the readout where that is 0."""
    return config.output_size or config.readout_size


def init_output(key: Key[Array, ""], config: ModelConfig) -> dict[str, Array]:
    """Draw W_o [M, V] and b_w [V]; with `output_size`, also W_1 before W_o, without a bias.

    With `tied_embeddings` there is no W_o: see `output_weights`.
    """
    weight, rows = INITS[config.init].weight, config.target_vocabulary
    shapes: dict[str, Any] = {}
    if config.output_size:
        shapes["W_1"] = (weight, (config.readout_size, config.output_size))
    if not config.tied_embeddings:
        shapes["W_o"] = (weight, (softmax_inputs(config), rows))
    return draw(key, shapes | {"b_w": zeros(rows)})


def readout(
    config: ModelConfig,
    dot: Dot,
    params: Params,
    s: Float[Array, "*X H"],
    y: Float[Array, "*X E"] | None,  # None where `readout_inputs` has no y
    c: Float[Array, "*X C"],
) -> Float[Array, "*X L"]:
    """Return t of every step at once, from its state, the previous word and its context."""
    operands = {"U_o": s, "V_o": y, "C_o": c}
    names = READOUT_INPUTS[config.readout_inputs]
    t = functools.reduce(jnp.add, (dot(name, operands[name]) for name in names))
    return READOUTS[config.readout].apply(add_bias(t, params["readout"]["b_o"]))


def project(config: ModelConfig, params: Params, t: Float[Array, "*X L"]) -> Float[Array, "*X M"]:
    """Apply the linear layer between readout and vocabulary, where the model has one."""
    W_1 = params["output"].get("W_1")
    return t if W_1 is None else matmul(config.compute_dtype, t, W_1)


def output_weights(config: ModelConfig, params: Params) -> Float[Array, "M V"]:
    """Return W_o of the output softmax: a parameter, or E_yᵀ with `tied_embeddings`.

    The gradient of a tied W_o is added to that of the embedding. E_y keeps the initial distribution
    of an embedding, which is that of W_o: every initialisation draws both alike where M = E. The
    bias of the embedding is no part of W_o. Source: Press and Wolf 2017, arXiv 1608.05859.

    >>> softmax(t @ output_weights(config, params) + params["output"]["b_w"]).log_p
    """
    if config.tied_embeddings:
        return transposed(config.compute_dtype, params["target_embedding"]["E"])
    return params["output"]["W_o"]


def tie_faults(config: ModelConfig) -> Iterator[str]:
    """Yield why the output matrix cannot be E_yᵀ, where `tied_embeddings` asks for it."""
    if not config.tied_embeddings:
        return
    last = "output_size" if config.output_size else "readout_size"
    if softmax_inputs(config) != config.embedding_size:
        yield (
            f"model.tied_embeddings is True, but model.{last} is {getattr(config, last)} and "
            f"model.embedding_size is {config.embedding_size}: set both to one size, or "
            f"model.output_size to {config.embedding_size}"
        )
    inputs = READOUT_INPUTS.get(config.readout_inputs, ("V_o",))  # unknown names: another fault
    if not config.feed_previous and "V_o" not in inputs:
        yield (
            "model.tied_embeddings is True, but model.feed_previous is False and "
            f"model.readout_inputs is {config.readout_inputs}, so no part reads target words: set "
            "feed_previous to True, or add y to readout_inputs"
        )
