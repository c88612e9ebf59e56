"""Attention: the score functions, the weights, and the context that the decoder reads.

B sentences, S source positions, H decoder units, A alignment units, C annotation size.
"""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model.attention_weights import (
    masked_softmax,
    monotonic_weights,
    predictive_weights,
)
from bahdanau_jax.model.interventions import Intervention, changed
from bahdanau_jax.model.matrix_products import matmul, repeated, transposed
from bahdanau_jax.model.parameters import INITS, Params, draw, zeros
from bahdanau_jax.model.recurrence import Dot
from bahdanau_jax.names import choose
from bahdanau_jax.user_code import imported, is_code


class Score(NamedTuple):
    """An attention variant, e_ij = score(query(s), keys(h_j)), as a frozen value.

    A user's own variant is such a value, which the configuration names as `module:attribute`.
    `score_contract.check_score` checks the shapes that it returns before a run starts.

    >>> import bahdanau_jax as bj
    >>> def init(key, config):
    ...     shape = config.hidden_size, bj.attention.annotation_size(config)
    ...     return bj.draw(key, {"W": (bj.INITS[config.init].weight, shape)})
    >>> bilinear = bj.attention.Score(
    ...     init=init,
    ...     keys=lambda config, params, annotations, mask: annotations,
    ...     query=lambda params: params["W"],
    ...     score=lambda params, query, keys: jnp.einsum("bc,bsc->bs", query, keys),
    ... )
    """

    init: Callable[[Array, ModelConfig], dict[str, Array]]  # (key, config) -> params by name
    keys: Callable[..., Array]  # (config, params, annotations [B S C], mask [B S]) -> [B S A]
    query: Callable[[Params], Array | None]  # params -> a matrix [H, A], or None: s itself
    score: Callable[..., Array]  # (params, query [B A], keys [B S A]) -> e [B S]
    # (params, e [B S], mask, query, i [B]) -> α [B S]; i = 0.0, 1.0, ... None: masked_softmax
    weights: Callable[..., Array] | None = None
    # (params, keys, coverage [B S]) -> the keys of this step, for a score that reads the sum of
    # each position's weights in the steps before. None: the keys of every step are the same.
    covered: Callable[..., Array] | None = None

    def energies(
        self,
        params: Params,
        keys: Float[Array, "B S _"],  # of any width that the score accepts
        query: Float[Array, "B A"],
        coverage: Float[Array, "B S"] | tuple[()] = (),
    ) -> Float[Array, "B S"]:
        """Return e [B, S] of one step."""
        if self.covered is not None:
            keys = self.covered(params, keys, coverage)
        return self.score(params, query, keys)

    def energies_of_packed(
        self, params: Params, keys: Float[Array, "B S _"], packed: Float[Array, "B _"]
    ) -> Float[Array, "B S"]:
        """Return e [B, S], where one array has the query, and the coverage too if it is read."""
        if self.covered is None:
            return self.energies(params, keys, packed)
        width = packed.shape[1] - keys.shape[1]
        return self.energies(params, keys, packed[:, :width], packed[:, width:])


class Attended(NamedTuple):
    """The result of one attention step; "..." is empty, or K hypotheses of each sentence."""

    context: Float[Array, "B ... C"]  # c_i, the expected annotation
    alpha: Float[Array, "B ... S"]  # weights over source positions; 0 on padding


def attend(
    score: Score,
    dot: Dot,
    params: Params,
    query: Float[Array, "B ... A"],
    keys: Float[Array, "B S _"] | None,  # of any width that the score accepts
    mask: Bool[Array, "B S"],
    i: Float[Array, "B ..."] | tuple[()] = (),  # the number of the step
    coverage: Float[Array, "B ... S"] | tuple[()] = (),  # Σ of alpha of the steps before
    intervention: Intervention | None = None,
    deferred: bool = False,  # whether `dot("score", packed)` returns the energies
) -> Attended:
    """Return alpha_ij = softmax_j e_ij over real positions, and c_i = sum_j alpha_ij h_j.

    A score with `weights` returns other alpha, and one with `covered` has keys of its own in each
    step. An intervention changes alpha. The annotations are a
    weight of the step, `dot("annotations", alpha)`, so their gradient is one product after the
    backward loop. The backward pass recomputes tanh [B, S, A] or the like of each step.
    """
    weights = score.weights or (lambda params, e, mask, query, i: masked_softmax(e, mask))

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def align(params, query, keys, mask, i, coverage):
        return weights(params, score.energies(params, keys, query, coverage), mask, query, i)

    if query.ndim == 2:
        if deferred:
            packed = (
                query if isinstance(coverage, tuple) else jnp.concatenate([query, coverage], -1)
            )
            alpha = weights(params, dot("score", packed), mask, query, i)
        else:
            alpha = align(params, query, keys, mask, i, coverage)
        alpha = changed(intervention, alpha, i, mask)
        return Attended(dot("annotations", alpha.astype(query.dtype)[:, None])[:, 0], alpha)
    of_each = jax.vmap(align, in_axes=(None, 1, None, None, 1, 1), out_axes=1)  # hypothesis
    alpha = changed(intervention, of_each(params, query, keys, mask, i, coverage), i, mask)
    return Attended(dot("annotations", alpha.astype(query.dtype)), alpha)


def annotation_size(config: ModelConfig) -> int:
    """Return C: H for each direction that encodes, and E with `word_annotations`."""
    states = config.hidden_size * (2 if config.encoder_directions == "both" else 1)
    return states + config.embedding_size * config.word_annotations


def init_additive(key: Key[Array, ""], config: ModelConfig) -> dict[str, Array]:
    """Draw W_a [H, A], U_a [C, A] and v_a [A]."""
    init, size = INITS[config.init], config.alignment_size
    shapes = {
        "W_a": (init.alignment, (config.hidden_size, size)),
        "U_a": (init.alignment, (annotation_size(config), size)),
    }
    return draw(key, shapes | {"v_a": zeros(size)})


def additive_score(
    activation: Callable[[Array], Array],
    params: Params,
    query: Float[Array, "B A"],
    keys: Float[Array, "B S A"],
) -> Float[Array, "B S"]:
    """e_ij = v_aᵀ tanh(W_a s + U_a h_j), with query = W_a s and keys = U_a h_j (A.1.2)."""
    activated = activation(repeated(query, keys) + keys)
    # At a lower precision, XLA on a GPU first writes all the rounded factors to memory.
    return jnp.matmul(activated, params["v_a"], precision="highest")


def additive(activation: Callable[[Array], Array]) -> Score:
    """Return the additive score with this activation of each number; the paper's is tanh."""
    return Score(
        init=init_additive,
        keys=lambda config, params, annotations, mask: matmul(
            config.compute_dtype, annotations, params["U_a"]
        ),
        query=lambda params: params["W_a"],
        score=functools.partial(additive_score, activation),
    )


def init_coverage(key: Key[Array, ""], config: ModelConfig) -> dict[str, Array]:
    """Draw the parameters of the additive score, and V_c [A], which is zero."""
    return init_additive(key, config) | draw(key, {"V_c": zeros(config.alignment_size)})


def covered_keys(
    params: Params, keys: Float[Array, "B S A"], coverage: Float[Array, "B S"]
) -> Float[Array, "B S A"]:
    """Return U_a h_j + V_c Σ_k α_kj over the steps k before this one."""
    # A product of matrices has products as gradients, which a CPU computes faster than sums.
    column, row = coverage.astype(keys.dtype).reshape(-1, 1), params["V_c"][None]
    return keys + jnp.matmul(column, row, precision="highest").reshape(keys.shape)


def no_parameters(key: Key[Array, ""], config: ModelConfig) -> dict[str, Array]:
    """Return no parameters, for a score that has none."""
    return {}


def state_itself(params: Params) -> None:
    """Return no query matrix: the score compares s itself with the keys."""
    return None


def sum_of_directions(
    config: ModelConfig,
    params: Params,
    annotations: Float[Array, "B S C"],
    mask: Bool[Array, "B S"],
) -> Float[Array, "B S H"]:
    """Return →h_j + ←h_j, as wide as a decoder state; h_j itself with one direction."""
    words = config.embedding_size * config.word_annotations
    h = annotations[..., : annotations.shape[-1] - words]
    return h.reshape(*h.shape[:-1], -1, config.hidden_size).sum(-2)


def dot_score(
    params: Params, query: Float[Array, "B H"], keys: Float[Array, "B S H"]
) -> Float[Array, "B S"]:
    """e_ij = sᵀ h_j (Luong et al. 2015, arXiv 1508.04025), in float32 on an accelerator, too."""
    return jnp.einsum("bh,bsh->bs", query, keys, precision="highest")


def scaled_dot_score(
    params: Params, query: Float[Array, "B H"], keys: Float[Array, "B S H"]
) -> Float[Array, "B S"]:
    """e_ij = sᵀ h_j / √H (Vaswani et al. 2017, arXiv 1706.03762)."""
    return dot_score(params, query, keys) * query.shape[-1] ** -0.5


def init_general(key: Key[Array, ""], config: ModelConfig) -> dict[str, Array]:
    """Draw W [H, C] of Luong et al.'s multiplicative score sᵀ W h_j (arXiv 1508.04025)."""
    shape = (config.hidden_size, annotation_size(config))
    return draw(key, {"W": (INITS[config.init].weight, shape)})


# Luong et al.'s multiplicative score sᵀ W h_j, also that of local attention.
GENERAL = Score(
    init=init_general,
    keys=lambda config, params, annotations, mask: matmul(
        config.compute_dtype, annotations, transposed(config.compute_dtype, params["W"])
    ),
    query=state_itself,
    score=dot_score,
)


def init_predictive(key: Key[Array, ""], config: ModelConfig) -> dict[str, Array]:
    """Draw W [H, C] of the general score, and W_p [H, A] and v_p [A, 1] of the centre p_i."""
    H, A = config.hidden_size, config.alignment_size
    shapes = {"W": (H, annotation_size(config)), "W_p": (H, A), "v_p": (A, 1)}
    return draw(key, {name: (INITS[config.init].weight, shape) for name, shape in shapes.items()})


def last_position(
    config: ModelConfig,
    params: Params,
    annotations: Float[Array, "B S C"],
    mask: Bool[Array, "B S"],
) -> Float[Array, "B S 1"]:
    """Return 0 at the last real position of each sentence and -1e9 at every other position."""
    last = mask & ~jnp.pad(mask, ((0, 0), (0, 1)))[:, 1:]
    return jnp.where(last, 0.0, -1e9)[..., None].astype(annotations.dtype)


# Value of `model.attention` -> the score function.
SCORES: Mapping[str, Score] = MappingProxyType(
    {
        "additive": additive(jnp.tanh),
        "additive_relu": additive(jax.nn.relu),
        # Eq. 11 of arXiv 1704.04368; Tu et al. 2016 (arXiv 1601.04811) without fertilities.
        "additive_coverage": additive(jnp.tanh)._replace(init=init_coverage, covered=covered_keys),
        "dot": Score(no_parameters, sum_of_directions, state_itself, dot_score),
        "scaled_dot": Score(no_parameters, sum_of_directions, state_itself, scaled_dot_score),
        "general": GENERAL,
        # Luong et al. report their best results for local attention with the general score.
        "local_m": GENERAL._replace(weights=monotonic_weights),
        "local_p": Score(
            init=init_predictive,
            keys=lambda config, params, annotations, mask: annotations,
            query=lambda params: jnp.concatenate([params["W"], params["W_p"]], axis=-1),
            score=lambda params, query, keys: dot_score(params, query[:, : keys.shape[-1]], keys),
            weights=predictive_weights,
        ),
        # The fixed context of RNNencdec: every step attends to the last real position alone.
        "none": Score(
            init=no_parameters,
            keys=last_position,
            query=state_itself,
            score=lambda params, query, keys: keys[..., 0],
        ),
    }
)


def score_named(name: str) -> Score:
    """Return the score called `name` in SCORES, or the user's own at `module:attribute`.

    Raises ValueError for an unknown name and for an object that is not a Score.
    """
    if not is_code(name):
        return choose(SCORES, name, "model.attention", "module:attribute")
    if isinstance(score := imported(name, "model.attention"), Score):
        return score
    raise ValueError(
        f"model.attention is {name!r}, which is a {type(score).__name__}; expected a Score, "
        "bahdanau_jax.model.attention.Score(init, keys, query, score)"
    )
