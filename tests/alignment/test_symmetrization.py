"""Symmetrised links against cases by hand and a slow loop over all places."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.alignment.symmetrization import SYMMETRIZATIONS, transposed

LINKS = st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=14)


# The order of Moses' program symal, whose places are (target, source).
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
PLACES = [(i, j) for j in range(7) for i in range(6)]


def loops(method: str, forward, backward):
    """Koehn's description, literally: nested loops over all places until nothing changes."""
    grown = set(forward & backward)

    def linked(source, target):
        return any(i == source for i, _ in grown), any(j == target for _, j in grown)

    before = None
    while before != len(grown) and method != "intersection":
        before = len(grown)
        for i, j in PLACES:
            for b, a in NEIGHBOURS if (i, j) in grown else ():
                new = i + a, j + b
                if not all(linked(*new)) and new in forward | backward:
                    grown.add(new)
    settled = {"grow-diag-final": all, "grow-diag-final-and": any}.get(method)
    for model in (forward, backward) if settled else ():
        for link in PLACES:
            if link in model and not settled(linked(*link)):
                grown.add(link)
    return grown


# Two words that both models link, a neighbour that links a new word, one that does not, a link
# apart of two new words, and one apart of one new word.
FORWARD = {(0, 0), (1, 1), (0, 1), (3, 5), (1, 4)}
BACKWARD = {(0, 0), (1, 1), (2, 1), (5, 3)}
HAND = {
    "intersection": {(0, 0), (1, 1)},
    "union": FORWARD | BACKWARD,
    "grow-diag": {(0, 0), (1, 1), (2, 1)},  # 0-1 joins two words that have links
    "grow-diag-final": {(0, 0), (1, 1), (2, 1), (3, 5), (1, 4), (5, 3)},
    "grow-diag-final-and": {(0, 0), (1, 1), (2, 1), (3, 5), (5, 3)},
}


@pytest.mark.parametrize("method", SYMMETRIZATIONS)
def test_by_hand(method):
    assert SYMMETRIZATIONS[method](FORWARD, BACKWARD) == HAND[method]


def test_the_target_words_are_visited_in_their_order():
    """The links of symal for this case; in the order of the source words, 1-0 would be missing."""
    forward, backward = {(0, 2), (2, 0), (1, 3)}, {(0, 2), (2, 0), (1, 0)}
    assert SYMMETRIZATIONS["grow-diag"](forward, backward) == {(0, 2), (1, 0), (1, 3), (2, 0)}


def test_growth_goes_on_from_what_it_added():
    # 0-0 grows to 1-1 within its pass, that to 2-2; and backwards, 5-5 to 4-4 in a second pass.
    forward = {(0, 0), (1, 1), (2, 2), (5, 5), (4, 4)}
    assert SYMMETRIZATIONS["grow-diag"](forward, {(0, 0), (5, 5)}) == forward


def test_the_forward_model_is_finished_first():
    forward, backward = {(0, 0)}, {(0, 1)}
    assert SYMMETRIZATIONS["grow-diag-final-and"](forward, backward) == forward
    assert SYMMETRIZATIONS["grow-diag-final-and"](backward, forward) == backward


@given(LINKS, LINKS)
@pytest.mark.parametrize("method", [name for name in SYMMETRIZATIONS if name != "union"])
def test_the_slow_loop_agrees(method, forward, backward):
    assert SYMMETRIZATIONS[method](forward, backward) == loops(method, forward, backward)


@given(LINKS, LINKS)
def test_each_method_adds_to_the_one_before(forward, backward):
    found = {name: method(forward, backward) for name, method in SYMMETRIZATIONS.items()}
    assert found["intersection"] == forward & backward
    assert found["intersection"] <= found["grow-diag"] <= found["grow-diag-final-and"]
    assert found["grow-diag"] <= found["grow-diag-final"] <= found["union"] == forward | backward
    assert found["grow-diag-final-and"] <= found["union"]


@given(LINKS, LINKS)
def test_growing_does_not_ask_which_model_is_which(forward, backward):
    for name in ("intersection", "union", "grow-diag"):
        method = SYMMETRIZATIONS[name]
        assert method(forward, backward) == method(backward, forward)
        if name != "grow-diag":  # which depends on the order of visits
            turned = method(transposed(backward), transposed(forward))
            assert transposed(turned) == method(forward, backward)


@given(LINKS)
def test_models_that_agree_are_left_alone(links):
    assert all(method(links, links) == links for method in SYMMETRIZATIONS.values())


@given(LINKS, LINKS)
def test_final_links_every_word_that_any_model_links(forward, backward):
    found = SYMMETRIZATIONS["grow-diag-final"](forward, backward)
    for side in (0, 1):
        assert {link[side] for link in found} == {link[side] for link in forward | backward}
