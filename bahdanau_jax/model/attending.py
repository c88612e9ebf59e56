"""Who computes the attention of a decoder's step: XLA, of any score, or kernels of our own.

B sentences, S source positions, C annotation size.
"""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model.attention import Folded, Memory, masked_softmax, score_named
from bahdanau_jax.model.attention_kernels import ACTIVATIONS, Form
from bahdanau_jax.model.fused_attention import Fused
from bahdanau_jax.model.parameters import Params
from bahdanau_jax.model.recurrence import Dot


class Attended(NamedTuple):
    context: Float[Array, "B ... C"]  # c_i, the expected annotation
    alpha: Float[Array, "B ... S"]  # weights over source positions; 0 on padding, rows sum to 1


Given = tuple[dict[str, Any], Any]  # what a step asks `dot` for, and all else it needs
# (dot, all else, query); "...": nothing, or the hypotheses of a sentence where `stepper` has them.
Attend = Callable[[Dot, Any, Float[Array, "B ... A"]], Attended]


class Kernel(NamedTuple):
    given: Callable[[ModelConfig, Params, Memory | Folded], Given]  # params are the attention's
    attend: Callable[[ModelConfig], Attend]


def _given_xla(config: ModelConfig, params: Params, memory: Memory | Folded) -> Given:
    """To the context, the annotations are a weight like others."""
    return {"annotations": memory.annotations}, (params, memory.keys, memory.mask)


def _attend_xla(config: ModelConfig) -> Attend:
    score = score_named(config.attention)

    # The energies [B, S, A] of a step are computed again in the backward pass, never stored.
    @functools.partial(jax.checkpoint, prevent_cse=False)
    def align(params, query, keys, mask):
        return masked_softmax(score.score(params, query, keys), mask)

    def attend(dot, rest, query):
        params, keys, mask = rest
        if query.ndim > 2:  # several hypotheses of each sentence
            alpha = jax.vmap(align, in_axes=(None, 1, None, None), out_axes=1)(
                params, query, keys, mask
            )
            return Attended(dot("annotations", alpha.astype(query.dtype)), alpha)
        alpha = align(params, query, keys, mask)
        context = dot("annotations", alpha.astype(query.dtype)[:, None])[:, 0]
        return Attended(context, alpha)

    return attend


def _given_pallas(config: ModelConfig, params: Params, memory: Memory | Folded) -> Given:
    """The whole of it is one operator of the step. ValueError where the kernels lack the score."""
    if config.attention not in ACTIVATIONS:
        raise ValueError(
            f"model.attention_kernel pallas is for model.attention {' and '.join(ACTIVATIONS)}, "
            f"not {config.attention}"
        )
    form = Form(config.attention, config.products)
    fused = Fused(memory.keys, memory.mask, params["v_a"], memory.annotations, form)
    return {"attention": fused}, ()


def _attend_pallas(config: ModelConfig) -> Attend:
    return lambda dot, rest, query: Attended(*dot("attention", query))


_XLA = Kernel(_given_xla, _attend_xla)

# Values of `model.attention_kernel`. What `auto` means is found out at the start of a training run.
KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {"auto": _XLA, "xla": _XLA, "pallas": Kernel(_given_pallas, _attend_pallas)}
)
