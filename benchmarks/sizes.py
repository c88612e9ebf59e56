"""The sizes of measured updates, and the number of operations of an update of each size."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

PAIRS = "each source with each target position"


class Size(NamedTuple):
    """A model and a batch, in the paper's letters."""

    V: int  # words of either vocabulary
    m: int  # embedding
    n: int  # units of a direction and of the decoder
    a: int  # n', units of the alignment model
    l: int  # readout after pooling  # noqa: E741
    B: int  # sentences
    S: int  # source positions
    T: int  # target positions


def paper(length: int) -> Size:
    return Size(V=30_000, m=620, n=1000, a=1000, l=500, B=80, S=length, T=length)


SIZES: Mapping[str, Sequence[Size]] = MappingProxyType(
    {
        "tiny": (Size(V=500, m=16, n=24, a=20, l=12, B=8, S=6, T=5),),  # for tests
        "lists": (Size(V=104, m=32, n=128, a=128, l=64, B=32, S=31, T=12),),  # configs/primes.py
        "small": (Size(V=8_000, m=256, n=256, a=256, l=256, B=80, S=16, T=16),),
        "paper": (paper(30), paper(50)),
    }
)


def products(size: Size) -> dict[str, int]:
    """Multiplications of the forward pass of one sentence, equation by equation.

    Additions, gates, tanh and softmax are left out: they are few, and the limit is the rate of
    matrix products.
    """
    V, m, n, a, l, _, S, T = size  # noqa: E741
    return {
        "encoder inputs: W x, W_z x, W_r x, both directions": S * 2 * 3 * m * n,
        "encoder states: U (r h), U_z h, U_r h, both directions": S * 2 * 3 * n * n,
        "keys: U_a h_j": S * 2 * n * a,
        "s_0: W_s h": n * n,
        "queries: W_a s": T * n * a,
        f"energies: v_a tanh(.), {PAIRS}": T * S * a,
        f"contexts: sum of alpha_ij h_j, {PAIRS}": T * S * 2 * n,
        "decoder inputs: W y, W_z y, W_r y": T * 3 * m * n,
        "decoder contexts: C c, C_z c, C_r c": T * 3 * 2 * n * n,
        "decoder states: U (r s), U_z s, U_r s": T * 3 * n * n,
        "readout: U_o s, V_o y, C_o c": T * (n + m + 2 * n) * 2 * l,
        "output: W_o t": T * l * V,
    }


def flops(size: Size) -> int:
    """The floating point operations of the products in an update of a batch.

    Each multiplication with its addition counts as two. The backward pass costs twice as much as
    the forward pass: the gradient of each of the two factors costs as much as the product.
    """
    return size.B * 2 * 3 * sum(products(size).values())


def joeynmt(size: Size) -> int:
    """The operations of an update of JoeyNMT's model.

    Its GRU reads the word and the previous attention vector. Alignment, readout and output matrix
    are as wide as its units.
    """
    V, m, n, _, _, B, S, T = size
    encoder = S * 2 * 3 * (m + n) * n + S * 2 * n * n + 2 * n * n  # with keys and bridge
    attention = T * n * n + T * S * 3 * n
    decoder = T * 3 * (m + n) * n + T * 3 * n * n + T * 3 * n * n + T * n * V
    return B * 2 * 3 * (encoder + attention + decoder)


def pairwise(size: Size) -> int:
    """The operations of `flops` for each pair of a source and a target position."""
    counts = (count for name, count in products(size).items() if name.endswith(PAIRS))
    return size.B * 2 * 3 * sum(counts)
