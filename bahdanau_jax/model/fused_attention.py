"""Additive attention of a step in one kernel, and its gradients.

XLA makes several kernels of a step's energies, softmax and context, and for their gradients reads
and writes an array as large as the keys in every step. Here a step reads keys and annotations once,
forward and again backward; their gradients are made after the loop over the steps, from the little
that every step leaves behind.

B sentences, S source and T target positions, A alignment units, C annotation size.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec
from jaxtyping import Array, Bool, Float

from bahdanau_jax.model import attention_kernels
from bahdanau_jax.model.attention_kernels import Form
from bahdanau_jax.model.products import PRODUCTS, einsum

Step = tuple[Float[Array, "B C"], Float[Array, "B S"]]  # a step's context and α, or what is in
# their place in its gradients: those of the context and of the energies


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def attend(
    form: Form,
    query: Float[Array, "B A"],
    keys: Float[Array, "B S A"],
    mask: Bool[Array, "B S"],
    v_a: Float[Array, " A"],
    annotations: Float[Array, "B S C"],
) -> Step:
    """c = Σ_j α_j h_j and α = masked_softmax(v_aᵀ tanh(query + key_j)), added in float32 at least.

    >>> context, alpha = attend(Form(), s @ W_a, h @ U_a, mask, v_a, h)
    """
    annotations = _rounded(form, annotations)
    return tuple(
        _apart(partial(attention_kernels.forward, form), query, keys, mask, v_a, annotations)
    )


def _attend_forward(form: Form, query, keys, mask, v_a, annotations):
    context, alpha = attend(form, query, keys, mask, v_a, annotations)  # pyright: ignore
    return (context, alpha), (query, keys, v_a, annotations, alpha)


def _attend_backward(form: Form, residuals, d):
    query, keys, v_a, annotations, alpha = residuals
    d_query, d_step = pull(form, query, keys, v_a, annotations, alpha, d)
    one = jax.tree.map(lambda x: x[None], (query, alpha, d_step))
    d_keys, d_v_a, d_annotations = gather(form, keys, v_a, *one)
    return d_query, d_keys, None, d_v_a, d_annotations


attend.defvjp(_attend_forward, _attend_backward)


def pull(form: Form, query, keys, v_a, annotations, alpha, d) -> tuple[Array, Step]:
    """The gradients of the query [B A], and of the context and the energies."""
    annotations, d_context = (_rounded(form, x) for x in (annotations, d[0]))
    d_query, d_energies = _apart(
        partial(attention_kernels.backward, form),
        *(query, keys, v_a, annotations, alpha, d_context, d[1]),
    )
    return d_query, (d[0], d_energies)


def gather(
    form: Form,
    keys: Float[Array, "B S A"],
    v_a: Float[Array, " A"],
    query: Float[Array, "T B A"],
    alpha: Float[Array, "T B S"],
    d: tuple[Float[Array, "T B C"], Float[Array, "T B S"]],
) -> tuple[Float[Array, "B S A"], Float[Array, " A"], Float[Array, "B S C"]]:
    """The gradients of keys, v_a and annotations, from what `pull` made of every step."""
    d_context, d_energies = d
    d_keys, d_v_a = _apart(partial(attention_kernels.over_time, form), query, keys, v_a, d_energies)
    d_annotations = einsum(form.products, "tbs,tbc->bsc", alpha.astype(d_context.dtype), d_context)
    return d_keys, jnp.sum(d_v_a, 0).astype(v_a.dtype), d_annotations


def _rounded(form: Form, x: Array) -> Array:
    """A factor of a product."""
    return x.astype(PRODUCTS[form.products] or x.dtype)


def _apart(kernel: Callable, *arrays: Array) -> Any:
    """A kernel for each device's own rows: XLA cannot split one, and would bring all rows together.

    The rows of a device are those that `jax.vmap` has put on the axes of the mesh.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or AxisType.Manual in mesh.axis_types:
        return kernel(*arrays)
    spec = PartitionSpec()
    return jax.shard_map(kernel, in_specs=spec, out_specs=spec, check_vma=False)(*arrays)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Fused:
    """The attention of every step as one of its products: `recurrence.Operator`."""

    # Arrays, but also what JAX puts in their place.
    keys: Any  # [B S A]
    mask: Any  # [B S], bool; None in a gradient
    v_a: Any  # [A]
    annotations: Any  # [B S C]
    form: Form = field(metadata={"static": True})

    def apply(self, query: Array) -> Step:
        return attend(self.form, query, self.keys, self.mask, self.v_a, self.annotations)  # pyright: ignore

    def known(self, query: Array, result: Step) -> Step:
        known: Any = _known
        return known(self.form, query, self.keys, self.v_a, self.annotations, result)

    def kept(self, query: Array, result: Step) -> tuple[Array, Array]:
        return query, result[1]

    def gradient(self, kept: tuple[Array, Array], d: tuple[Array, Array]) -> "Fused":
        d_keys, d_v_a, d_annotations = gather(self.form, self.keys, self.v_a, *kept, d)
        return Fused(d_keys, None, d_v_a, d_annotations, self.form)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _known(form: Form, query, keys, v_a, annotations, result: Step) -> Step:
    """`attend`, where the result is known already; what `gather` makes is left out."""
    return result


def _known_forward(form: Form, query, keys, v_a, annotations, result: Step):
    return result, (query, keys, v_a, annotations, result[1])


def _known_backward(form: Form, residuals, d):
    query, keys, v_a, annotations, alpha = residuals
    d_query, d_step = pull(form, query, keys, v_a, annotations, alpha, d)
    return d_query, None, None, None, d_step


_known.defvjp(_known_forward, _known_backward)
