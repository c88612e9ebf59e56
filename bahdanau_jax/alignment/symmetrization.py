"""Symmetrisation: one alignment from the alignments of two models of opposite directions.

`forward` are the links of the model from source to target, `backward` those of the other model.
Both are (source, target): `transposed` turns the backward model's links round.

Source: Och and Ney 2003 (intersection, union, growing); Koehn, Och and Marcu 2003. The growing
methods have the order of visits of Moses' program symal: by the target word, then the source word.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType

from bahdanau_jax.alignment.linking import Link, Links

# In this order: the difference of the target words, and of the source words.
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


class _Growing:
    """A growing set of links, with the number of links of each word."""

    def __init__(self, links: AbstractSet[Link]):
        self.links = set(links)
        self.sources = Counter(source for source, _ in links)
        self.targets = Counter(target for _, target in links)

    def add(self, link: Link) -> None:
        self.links.add(link)
        self.sources[link[0]] += 1
        self.targets[link[1]] += 1

    def reaches_both(self, link: Link) -> bool:
        return bool(self.sources[link[0]] and self.targets[link[1]])

    def reaches_one(self, link: Link) -> bool:
        return bool(self.sources[link[0]] or self.targets[link[1]])


def transposed(links: AbstractSet[Link]) -> Links:
    """Return (target, source) for every (source, target)."""
    return frozenset(map(_turned, links))


def intersection(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> Links:
    """The links of both directions."""
    return frozenset(forward & backward)


def union(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> Links:
    """The links of either direction."""
    return frozenset(forward | backward)


def grow_diag(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> Links:
    """Grow the intersection by neighbours in the union that link a word without a link.

    >>> sorted(grow_diag({(0, 0), (1, 1)}, {(0, 0), (2, 1), (4, 4)}))
    [(0, 0), (1, 1), (2, 1)]
    """
    return frozenset(_grow_diag(forward, backward).links)


def grow_diag_final(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> Links:
    """`grow_diag`, then links of each model whose source word or target word has no link."""
    grown = _grow_diag(forward, backward)
    return _final(grown, (forward, backward), grown.reaches_both)


def grow_diag_final_and(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> Links:
    """`grow_diag`, then links of each model whose source and target word both have no link."""
    grown = _grow_diag(forward, backward)
    return _final(grown, (forward, backward), grown.reaches_one)


def _grow_diag(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> _Growing:
    """Pass over the links, sorted by target and source word, until a pass adds none.

    A pass also visits links that it adds after its current position. No link needs a second visit:
    a neighbour that was not added is outside the union, or both its words have links already.
    """
    grown, candidates = _Growing(forward & backward), forward | backward
    next_pass = [*map(_turned, grown.links)]
    while next_pass:
        this_pass, next_pass = next_pass, []
        heapq.heapify(this_pass)
        while this_pass:
            place = heapq.heappop(this_pass)
            for down, right in NEIGHBOURS:
                neighbour = place[0] + down, place[1] + right
                link = _turned(neighbour)
                if link in candidates and not grown.reaches_both(link):
                    grown.add(link)
                    if neighbour > place:
                        heapq.heappush(this_pass, neighbour)
                    else:
                        next_pass.append(neighbour)
    return grown


def _turned(pair: tuple[int, int]) -> tuple[int, int]:
    """The place (target, source) of a link in the order of visits, and the link of a place."""
    return pair[1], pair[0]


def _final(
    grown: _Growing, models: tuple[AbstractSet[Link], ...], is_linked: Callable[[Link], bool]
) -> Links:
    for links in models:
        for link in sorted(links, key=_turned):
            if not is_linked(link):
                grown.add(link)
    return frozenset(grown.links)


# The methods, by their names in Moses, whose `intersect` is `intersection` here.
SYMMETRIZATIONS: Mapping[str, Callable[[AbstractSet[Link], AbstractSet[Link]], Links]] = (
    MappingProxyType(
        {
            "intersection": intersection,
            "union": union,
            "grow-diag": grow_diag,
            "grow-diag-final": grow_diag_final,
            "grow-diag-final-and": grow_diag_final_and,
        }
    )
)
