"""Weights for word links under teacher forcing: alpha, and weights that use the target word too.

alpha_i is computed before the target word y_i is known. The other entries of `LINK_WEIGHTS` use
y_i as well. B sentences, S source and T target positions, C annotation size, V vocabulary.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from bahdanau_jax.batch import START, Batch
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model.attention_weights import masked_softmax
from bahdanau_jax.model.attribution import integrated_gradients
from bahdanau_jax.model.decoder import predictor, start, teacher_forced_states
from bahdanau_jax.model.encoder import encode
from bahdanau_jax.model.interventions import force
from bahdanau_jax.model.memory import Memory, before_eos, intervene
from bahdanau_jax.model.orders import ORDERS
from bahdanau_jax.model.parameters import Params
from bahdanau_jax.model.teacher_forcing import TeacherForced, predictions, teacher_forced
from bahdanau_jax.names import choose


def log_p_of_each(
    config: ModelConfig, params: Params, memory: Memory, target: Int[Array, "B T"]
) -> Float[Array, "B T S"]:
    """Return log p(y_i | c_i = h_j), where the steps before i are as they were.

    It computes S decoder steps with their readouts for each target word. [B, V] is in memory for
    one of them at a time.

    >>> log_p_of_each(config.model, params, memory, batch.target).argmax(axis=-1)
    """
    states, first = teacher_forced_states(config, params, memory, target).state, start(memory)
    s = jnp.concatenate([first.s[None], states.s[:-1]])
    c = jnp.concatenate([first.c[None], states.c[:-1]])
    words = jnp.asarray(target).T
    before = jnp.pad(words, ((1, 0), (0, 0)), constant_values=START)[:-1]

    def of_position(j):
        position = jnp.full((memory.mask.shape[0], 1), j)
        # Every step below counts as step 0, and its weights depend on nothing.
        fixed = intervene(memory, force(position))
        predict = predictor(config, params, fixed)

        def of_step(inputs):
            before, s, c, word = inputs
            next_word = predict(before, start(fixed)._replace(s=s, c=c))[0]
            return jnp.take_along_axis(next_word.log_p, word[:, None], axis=-1)[:, 0]

        return lax.map(of_step, (before, s, c, words))

    return jnp.transpose(lax.map(of_position, jnp.arange(memory.mask.shape[1])), (2, 1, 0))


def posterior(config: ModelConfig, params: Params, batch: Batch) -> TeacherForced:
    """Weights alpha_ij p(y_i | c_i = h_j) / Σ_k alpha_ik p(y_i | c_i = h_k) in place of alpha.

    They are the probabilities of the source positions after y_i is known, if alpha_i is read as
    their probabilities before. `log_p` and the other fields are the model's own. Source: the
    posterior attention of Shankar and Sarawagi, ICLR 2019.

    >>> posterior(config.model, params, batch).alpha
    """
    memory = encode(config, params, batch.source, batch.source_mask)
    known = predictions(config, params, memory, batch.target)
    e = jnp.log(known.alpha) + log_p_of_each(config, params, memory, batch.target)
    normalized = jax.vmap(masked_softmax, in_axes=(1, None), out_axes=1)
    return known._replace(alpha=normalized(e, memory.mask))


def shift(config: ModelConfig, params: Params, batch: Batch) -> TeacherForced:
    """Weights alpha_{i+1} in place of alpha_i, whose state has read y_i; EOS keeps its own.

    Source: the shifted attention of arXiv 2004.14837.

    >>> shift(config.model, params, batch).alpha
    """
    known = teacher_forced(config, params, batch)
    following = jnp.concatenate([known.alpha[:, 1:], known.alpha[:, -1:]], axis=1)
    words = before_eos(jnp.asarray(batch.target_mask))
    return known._replace(alpha=jnp.where(words[..., None], following, known.alpha))


POINTS = 4  # of the quadrature; links need less precision than the sums of attributions


def saliency(config: ModelConfig, params: Params, batch: Batch) -> TeacherForced:
    """Weights max(0, A_ij) / Σ_k max(0, A_ik) in place of alpha, with integrated gradients A.

    The path of A begins at source embeddings of zero. Source: arXiv 1906.10282 aligns words by the
    gradients of the source embeddings.

    >>> saliency(config.model, params, batch).alpha
    """
    known, A = integrated_gradients(config, params, batch, POINTS, START)
    size = jnp.maximum(A, 0)
    total = size.sum(axis=-1, keepdims=True)
    return known._replace(alpha=size / jnp.where(total > 0, total, 1))


class LinkWeights(NamedTuple):
    """One kind of weights."""

    compute: Callable[[ModelConfig, Params, Batch], TeacherForced]  # alpha is these weights
    orders: tuple[str, ...]  # the values of `model.order` for which these weights are defined
    needs_feeding: bool = False  # whether `model.feed_previous` should be True


# Value of `--weights` of `bahdanau align` -> the weights of the links.
LINK_WEIGHTS: Mapping[str, LinkWeights] = MappingProxyType(
    {
        "attention": LinkWeights(teacher_forced, tuple(ORDERS)),
        "posterior": LinkWeights(posterior, tuple(ORDERS)),
        # In order paper, alpha_{i+1} comes from a state that has read only the words before y_i.
        "shift": LinkWeights(shift, ("groundhog", "luong", "conditional"), needs_feeding=True),
        "saliency": LinkWeights(saliency, tuple(ORDERS)),
    }
)


def check_link_weights(name: str, config: ModelConfig) -> None:
    """Raise ValueError for weights that are unknown, or that the model does not define."""
    kind = choose(LINK_WEIGHTS, name, "link weights")
    if config.order not in kind.orders:
        needed, present = f"of order {' or '.join(kind.orders)}", f"order {config.order}"
    elif kind.needs_feeding and not config.feed_previous:
        needed, present = "with feed_previous True", "feed_previous False"
    else:
        return
    raise ValueError(
        f"link weights {name!r} need a model {needed}, but this one has {present}: choose other "
        "weights, such as posterior"
    )
