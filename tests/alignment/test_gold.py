"""Files of links: reading gives what was written, and errors name the line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.alignment import gold
from bahdanau_jax.alignment.gold import format_pharaoh

LINKS = st.frozensets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12)


def read(lines, sentences):
    """The links of the first sentences of a file."""
    file = gold.read(lines, "g")
    return [file.links(n, 7, 7) for n in range(sentences)]


def test_pharaoh_is_sorted_by_number():
    assert format_pharaoh({(10, 0), (2, 1), (2, 0)}) == "2-0 2-1 10-0"
    assert format_pharaoh(frozenset()) == ""


@given(st.lists(st.tuples(LINKS, LINKS)))
def test_gold_comes_back(corpus):
    written = ["0-0\n", *(format_pharaoh(sure, possible) + "\n" for sure, possible in corpus)]
    expected = [(sure, sure | possible) for sure, possible in corpus]
    assert read(written, len(written))[1:] == expected


def test_marks_of_gold_links():
    assert format_pharaoh({(2, 1)}, possible={(0, 0), (2, 1)}) == "0?0 2-1"
    with pytest.raises(ValueError, match="g:2: a link reads .* such as 0-1 or 0[?]1, not '0p0'"):
        gold.read(["", "0p0"], "g")


@pytest.mark.parametrize("bad", ["0", "0-", "-1-0", "0-1-2", "a-b", "1,2", "٣-٤", "0-1111111111"])
def test_pharaoh_errors_name_the_line(bad):
    with pytest.raises(ValueError, match="^g.txt:3: .*source-target.*'") as error:
        gold.read(["0-0", "", f"1-1 {bad}"], "g.txt")
    assert repr(bad) in str(error.value)


# Numbers with leading zeros, a confidence, a link without S or P, one of NULL, one twice.
WA = ["0001 1 1 S 0.9", "", "1 2 3 P 1e-05", "3 4 1", "3 0 2 P", "3 2 2 P", "3 2 2 S"]


def test_wa_counts_from_1():
    assert read(WA, 3) == [
        ({(0, 0)}, {(0, 0), (1, 2)}),
        (set(), set()),
        ({(3, 0), (1, 1)}, {(3, 0), (1, 1)}),
    ]


@given(st.dictionaries(st.integers(0, 5), st.tuples(LINKS, LINKS)))
def test_both_formats_say_the_same(corpus):
    wa = [
        f"{n + 1} {i + 1} {j + 1} {'S' if (i, j) in sure else 'P'}"
        for n, (sure, possible) in corpus.items()
        for i, j in sure | possible
    ]
    ours = {n: (sure, sure | possible) for n, (sure, possible) in corpus.items()}
    pharaoh = [format_pharaoh(*corpus.get(n, ((), ()))) for n in range(6)]
    if wa:
        assert read(wa, 6) == read(pharaoh, 6) == [ours.get(n, (set(), set())) for n in range(6)]


@pytest.mark.parametrize(
    "bad", ["1 2", "1 2 3 X", "1 2 3 S x", "a 1 2 S", "-1 1 1", "0 1 1 S", "1-2"]
)
def test_wa_errors_name_the_line(bad):
    with pytest.raises(ValueError, match="^f.wa:2: .*sentence, source word") as error:
        gold.read(["1 1 1 S", bad], "f.wa")
    assert repr(bad) in str(error.value)


def test_transposed_links_come_target_first():
    links = gold.read(["1 1 3 S", "1 2 1 P"], "g", transpose=True).links(0, 3, 2)
    assert links == ({(2, 0)}, {(2, 0), (0, 1)})


def test_links_outside_their_sentence_are_refused_with_their_line():
    file = gold.read(["1 1 1 S", "2 1 1 S", "2 3 5 P"], "g.wa")
    assert file.links(0, 1, 1) == ({(0, 0)}, {(0, 0)})
    assert file.links(1, 3, 5).possible == {(0, 0), (2, 4)}
    for sizes in ((2, 5), (3, 4)):
        with pytest.raises(ValueError, match="^g.wa:3: .*source word 3 to target word 5 .* 2, "):
            file.links(1, *sizes)
    with pytest.raises(ValueError, match="^p:2: .* outside sentence 2, which has 1 and 1 words"):
        gold.read(["0-0", "1-0"], "p").links(1, 1, 1)


def test_a_sentence_that_wa_does_not_name_has_no_links():
    file = gold.read(["3 1 1 S"], "g")
    file.check(3)
    assert file.links(0, 9, 9) == (frozenset(), frozenset())
    with pytest.raises(ValueError, match="^g:1: sentence 3, but the text has 2"):
        file.check(2)


def test_pharaoh_has_a_line_for_each_sentence():
    file = gold.read(["0-0", ""], "g")
    file.check(2)
    for sentences in (1, 3):
        with pytest.raises(ValueError, match=f"^g has links of 2 sentences, .* has {sentences}"):
            file.check(sentences)


@pytest.mark.parametrize("lines", [[], [""], [" ", ""]])
def test_a_file_without_links_is_refused(lines):
    with pytest.raises(ValueError, match="^g has no link"):
        gold.read(lines, "g")
