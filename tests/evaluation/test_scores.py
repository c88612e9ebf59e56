"""Scores against sacreBLEU's published example, a slow LCS, and cases worked by hand."""

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.evaluation.scores import (
    Bleu,
    accuracy,
    bleu,
    in_common_subsequence,
    longest_common_subsequence,
    psa_lcsr,
    sequence_table,
    tallies,
)
from bahdanau_jax.evaluation.tally import chrf_tally

SEQUENCE = st.lists(st.integers(0, 4), max_size=9)
PAIRS = st.lists(st.tuples(SEQUENCE, SEQUENCE), min_size=1, max_size=8)


def slow_lcs(a, b):
    """The textbook recursion over whole prefixes, as a table."""
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            if a[i - 1] == b[j - 1]:
                table[i, j] = table[i - 1, j - 1] + 1
            else:
                table[i, j] = max(table[i - 1, j], table[i, j - 1])
    return int(table[-1, -1])


def bleu_by_hand(hypothesis, reference):
    """BLEU of one pair of tokenised sentences, where every order of n-gram has a match."""
    h, r = hypothesis.split(), reference.split()
    logs = []
    for n in range(1, 5):
        grams = [tuple(h[i : i + n]) for i in range(len(h) - n + 1)]
        known = [tuple(r[i : i + n]) for i in range(len(r) - n + 1)]
        matches = sum(min(grams.count(g), known.count(g)) for g in set(grams))
        logs.append(math.log(matches / len(grams)))
    return 100 * math.exp(min(0, 1 - len(r) / len(h)) + sum(logs) / 4)


def test_bleu_equals_the_formula():
    hypothesis, reference = "the cat sat on the red mat", "a cat sat on the red mat to day"
    result = bleu([hypothesis], [reference], tokenize="none")
    assert isinstance(result, Bleu)
    assert result.score == pytest.approx(bleu_by_hand(hypothesis, reference))
    assert "tok:none" in result.signature and "case:mixed" in result.signature


def test_bleu_equals_sacrebleus_documented_value():
    hypotheses = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
    references = ["The dog bit the man.", "It was not unexpected.", "The man bit him first."]
    assert bleu(hypotheses, references).score == pytest.approx(45.0675, abs=1e-4)
    assert 0 < chrf_tally(hypotheses, references).score() < 100


def test_bleu_lowercases_only_where_asked():
    cased, plain = ["The Cat Sat On It"], ["the cat sat on it"]
    assert bleu(cased, plain).score < 50
    assert bleu(cased, plain, lowercase=True).score == 100
    assert "case:lc" in bleu(cased, plain, lowercase=True).signature


def test_each_bleu_is_of_its_own_text():
    translations, references = ["It isn't The Cat, is it?"], ["It isn't the cat, is It?"]

    def tokenize(line):
        return line.replace("'", " '").replace("?", " ??")

    found = tallies(translations, references, tokenize, "char")
    assert found["chrF"].score() == chrf_tally(translations, references).score()
    split = [tokenize(translations[0])], [tokenize(references[0])]
    for name, text, tokens, lowercase in (
        ("BLEU", (translations, references), "char", False),
        ("BLEU-lowercased", (translations, references), "char", True),
        ("BLEU-tokenized", split, "none", False),
        ("BLEU-tokenized-lowercased", split, "none", True),
    ):
        expected = bleu(*text, tokenize=tokens, lowercase=lowercase)
        assert (found[name].score(), found[name].signature) == pytest.approx(expected)
    assert len({tally.score() for tally in found.values()}) == 4  # both in lower case have 100


def test_tokenised_text_scores_without_a_message(capfd, caplog):
    text = ["a man sees a dog ."] * 200
    assert bleu(text, text, tokenize="none").score == 100
    assert chrf_tally(text, text).score() == 100
    assert bleu(text, text).score == 100
    assert capfd.readouterr() == ("", "") and not caplog.records


@pytest.mark.parametrize("score", [bleu, chrf_tally, accuracy, psa_lcsr])
def test_counts_must_agree_and_not_be_zero(score):
    with pytest.raises(ValueError, match=r"^2 \w+ but 3 "):
        score(["a", "b"], ["a", "b", "c"])
    with pytest.raises(ValueError, match="at least one"):
        score([], [])


def test_unknown_names_list_the_known_ones():
    with pytest.raises(ValueError, match="13b.*13a, char, intl, none"):
        bleu(["a"], ["a"], tokenize="13b")
    with pytest.raises(ValueError, match="odd.*corrected, seed"):
        psa_lcsr([[1]], [[1]], empty="odd")


def test_empty_strings_score_nothing():
    assert bleu([""], ["a b c d"]).score == 0
    assert chrf_tally([""], ["a b c d"]).score() == 0


def test_accuracy_is_of_whole_sequences():
    assert accuracy([[1, 2], [3], [], [4]], [[1, 2], [3, 3], [], [5]]) == 0.5
    assert accuracy([np.array([1, 2])], [(1, 2)]) == 1.0
    assert accuracy(["ab"], ["ab"]) == 1.0


@given(SEQUENCE, SEQUENCE)
def test_lcs_equals_the_slow_one(a, b):
    assert longest_common_subsequence(a, b) == slow_lcs(a, b)


@given(SEQUENCE, SEQUENCE)
def test_tokens_in_a_common_subsequence_are_one(a, b):
    inside = in_common_subsequence(a, b)
    assert len(inside) == len(a) and inside.sum() == slow_lcs(a, b)
    rest = iter(b)
    assert all(token in rest for token, is_in in zip(a, inside, strict=True) if is_in)


@given(PAIRS, st.sampled_from(["seed", "corrected"]))
def test_psa_lcsr_equals_the_loop(pairs, empty):
    expected = []
    for prediction, target in pairs:
        n = len(target)
        if n == 0:
            value = float(empty == "corrected" and not prediction)
            expected.append((value, value, value))
            continue
        padded = (prediction + [-1] * n)[:n]
        psa = sum(padded[i] == target[i] for i in range(n)) / n
        lcsr = slow_lcs(padded, target) / n
        expected.append((psa, lcsr, math.sqrt(psa * lcsr)))
    result = psa_lcsr(*zip(*pairs, strict=True), empty=empty)
    np.testing.assert_allclose(result, np.mean(expected, axis=0), atol=1e-12)
    assert 0 <= result.psa <= result.geo_mean + 1e-12 <= result.lcsr + 2e-12 <= 1 + 3e-12


@pytest.mark.parametrize(
    ("prediction", "target", "psa", "lcsr"),
    [
        ([2, 3, 5], [2, 3, 5], 1, 1),
        ([3, 5], [2, 3, 5], 0, 2 / 3),  # shifted: no position matches, both tokens do in order
        ([2, 5], [2, 3, 5], 1 / 3, 2 / 3),
        ([2, 3, 5], [2, 3], 1, 1),  # what follows a complete target is cut away
        ([9, 2, 3], [2, 3], 0, 1 / 2),  # and so is what LCSR might have found beyond n
        ([], [2, 3], 0, 0),
        ([5, 3, 2], [2, 3, 5], 1 / 3, 1 / 3),
    ],
)
def test_psa_lcsr_by_hand(prediction, target, psa, lcsr):
    assert psa_lcsr([prediction], [target]) == pytest.approx((psa, lcsr, math.sqrt(psa * lcsr)))


def test_mean_of_roots_is_not_root_of_means():
    result = psa_lcsr([[3, 5], [2]], [[2, 3, 5], [2]])
    assert result == pytest.approx((1 / 2, 5 / 6, 1 / 2))


def test_an_empty_target_by_both_definitions():
    predictions, targets = [[], [7], [2]], [[], [], [2]]
    assert psa_lcsr(predictions, targets, empty="seed") == pytest.approx([1 / 3] * 3)
    assert psa_lcsr(predictions, targets, empty="corrected") == pytest.approx([2 / 3] * 3)


@pytest.mark.parametrize("end", ["\r", " ", "\t\r"])
def test_white_space_at_the_end_of_a_reference_changes_no_exact_match(end):
    found = sequence_table(["la mer", "le  ciel"], [f"la mer{end}", f"le ciel{end}"], str)
    assert set(found.values()) == {1}


def test_unk_is_one_wrong_word_in_every_score():
    """sacreBLEU's tokeniser splits `<unk>` into three tokens, and chrF counts five characters."""
    references = ["the man sees a small dog .", "we sleep in Canada ."]
    unknown, wrong = (
        [f"the {word} sees a small dog .", f"we sleep in {word} ."] for word in ("<unk>", "UNK")
    )
    found = {name: each.score() for name, each in tallies(unknown, references, str).items()}
    assert found["BLEU"] == bleu(wrong, references).score > bleu(unknown, references).score + 5
    assert found["BLEU-tokenized"] == pytest.approx(bleu(wrong, references, "none").score)
    assert found["chrF"] == chrf_tally(wrong, references).score()


def test_arrays_count_as_sequences():
    empty, full = np.array([], np.int32), np.array([2, 3], np.int32)
    assert psa_lcsr([empty, full], [empty, full], empty="corrected") == (1, 1, 1)


def test_thousands_of_pairs_take_a_moment():
    rng = np.random.default_rng(1)
    lists = rng.integers(1, 20, (6400, 2, 30)).tolist()
    start = time.process_time()
    psa_lcsr([a for a, _ in lists], [b for _, b in lists])
    assert time.process_time() - start < 2
