"""One alignment from those of two models of opposite directions.

`forward` are the links of the model from source to target, `backward` those of the other; both are
(source, target), so links of the backward model are turned round first.

Source: Och and Ney 2003 (intersection, union, growing); Koehn, Och and Marcu 2003, whose program
the growing methods follow, order of visits included.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType

from bahdanau_jax.alignment.linking import Link, Links

NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


class _Growing:
    """A set of links that knows which words it links."""

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
    """(target, source) for every (source, target)."""
    return frozenset((target, source) for source, target in links)


def intersection(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> Links:
    return frozenset(forward & backward)


def union(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> Links:
    return frozenset(forward | backward)


def grow_diag(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> Links:
    """The intersection, grown by neighbours from the union that link a word without a link.

    >>> sorted(grow_diag({(0, 0), (1, 1)}, {(0, 0), (2, 1), (4, 4)}))
    [(0, 0), (1, 1), (2, 1)]
    """
    return frozenset(_grow_diag(forward, backward).links)


def grow_diag_final(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> Links:
    """Then links of each model where the source word or the target word has none."""
    grown = _grow_diag(forward, backward)
    return _final(grown, (forward, backward), grown.reaches_both)


def grow_diag_final_and(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> Links:
    """Then links of each model where neither the source word nor the target word has one."""
    grown = _grow_diag(forward, backward)
    return _final(grown, (forward, backward), grown.reaches_one)


def _grow_diag(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> _Growing:
    """Passes over the links by source, then target word, until one adds none.

    A pass also visits what it adds ahead of itself. No link needs a second visit: a neighbour that
    was not added is not in the union, or both its words had links and keep them.
    """
    grown, candidates = _Growing(forward & backward), forward | backward
    coming = sorted(grown.links)
    while coming:
        this_pass, coming = coming, []
        heapq.heapify(this_pass)
        while this_pass:
            here = heapq.heappop(this_pass)
            for down, right in NEIGHBOURS:
                near = here[0] + down, here[1] + right
                if near in candidates and not grown.reaches_both(near):
                    grown.add(near)
                    if near > here:
                        heapq.heappush(this_pass, near)
                    else:
                        coming.append(near)
    return grown


def _final(
    grown: _Growing, models: tuple[AbstractSet[Link], ...], settled: Callable[[Link], bool]
) -> Links:
    for links in models:
        for link in sorted(links):
            if not settled(link):
                grown.add(link)
    return frozenset(grown.links)


# Names of the ways, as Moses has them.
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
