"""Intervals and significance tests, compared with the numbers of sacreBLEU."""

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from bahdanau_jax.evaluation import significance
from bahdanau_jax.evaluation.significance import compare, intervals, resampled
from bahdanau_jax.evaluation.tally import bleu_tally, chrf_tally

WORDS = ["the", "a", "man", "dog", "house", "sees", "gives", "red", "old", "two", "they", ".", ","]


def corpus(sentences, seed=0):
    """(references, a good system, a worse one)."""
    rng = np.random.default_rng(seed)

    def noisy(line, rate):
        drawn = rng.choice(WORDS, len(line))
        return [d if rng.random() < rate else w for w, d in zip(line, drawn, strict=True)]

    lines = [rng.choice(WORDS, rng.integers(3, 15)).tolist() for _ in range(sentences)]
    systems = lines, [noisy(x, 0.25) for x in lines], [noisy(x, 0.32) for x in lines]
    return tuple([" ".join(line) for line in system] for system in systems)


REFERENCES, GOOD, WORSE = corpus(40)


def tallies(system, references=REFERENCES):
    return {"BLEU": bleu_tally(system, references), "chrF": chrf_tally(system, references)}


def test_intervals_equal_sacrebleus():
    found = intervals(tallies(GOOD))
    for name, metric in {"BLEU": BLEU(force=True), "chrF": CHRF()}.items():
        expected = metric.corpus_score(GOOD, [REFERENCES], n_bootstrap=1000)
        low, high = found[name]
        assert (high - low) / 2 == pytest.approx(expected._ci, rel=1e-5)
        assert low < expected.score < high
        drawn = resampled(tallies(GOOD))[name]
        assert drawn.mean() == pytest.approx(expected._mean, rel=1e-6)


@pytest.mark.parametrize("block", [significance.BLOCK, 1])
@pytest.mark.parametrize(("test", "field"), [("bs", "p_bootstrap"), ("ar", "p_randomization")])
def test_probabilities_equal_sacrebleus(test, field, block, monkeypatch):
    monkeypatch.setattr(significance, "BLOCK", block)
    monkeypatch.setenv("SACREBLEU_SEED", "12345")
    metrics = {"BLEU": BLEU(force=True), "chrF": CHRF()}
    systems = [("worse", WORSE), ("good", GOOD)]
    _, expected = PairedTest(systems, metrics, [REFERENCES], test, n_samples=400)()
    found = compare(tallies(GOOD), tallies(WORSE), resamples=400, shuffles=400)
    for name, its in {"BLEU": "BLEU", "chrF": "chrF2"}.items():
        own = expected[its][1].p_value  # pyright: ignore
        assert getattr(found[name], field) == pytest.approx(own, abs=1e-12)
        assert 0.002 < found[name].p_randomization < 1  # not at either end, where all agree


def test_a_comparison_adds_up():
    one = compare(tallies(GOOD), tallies(WORSE))["BLEU"]
    assert one.difference == pytest.approx(one.score - one.baseline) and one.difference > 0
    assert one.interval.low < one.difference < one.interval.high
    other = compare(tallies(WORSE), tallies(GOOD))["BLEU"]
    assert (other.difference, other.p_bootstrap) == (-one.difference, one.p_bootstrap)
    assert other.interval == pytest.approx((-one.interval.high, -one.interval.low))
    assert one.wins + other.wins <= 1 and one.wins > 0.8


def test_wins_are_the_resamples_with_a_higher_score():
    near = [*GOOD[:-4], *WORSE[-4:]]
    one = compare(tallies(GOOD), tallies(near))["BLEU"]
    both = resampled({"ours": tallies(GOOD)["BLEU"], "theirs": tallies(near)["BLEU"]})
    differences = both["ours"] - both["theirs"]
    assert one.wins == (differences > 0).mean()
    assert ((differences > 0) & (differences < 0.5)).mean() > 0.01  # small differences count too


def test_a_system_does_not_beat_itself():
    one = compare(tallies(GOOD), tallies(GOOD))["BLEU"]
    assert (one.difference, one.wins, tuple(one.interval)) == (0, 0, (0, 0))
    assert one.p_bootstrap == one.p_randomization == 1


def test_randomization_counts_the_resamples_with_an_equal_difference():
    """Where one sentence differs, a swap of it keeps the size of the difference."""
    changed = ["the the the", *GOOD[1:]]
    for ours, theirs in ((GOOD, changed), (changed, GOOD)):
        one = compare(tallies(ours), tallies(theirs), resamples=10, shuffles=99)["BLEU"]
        assert one.difference != 0 and one.p_randomization == 1


def test_a_clear_difference_is_significant():
    one = compare(tallies(REFERENCES), tallies(WORSE))["BLEU"]
    assert one.p_bootstrap < 0.01 and one.p_randomization < 0.001


def test_blocks_change_no_interval(monkeypatch):
    whole = intervals(tallies(GOOD), resamples=70)
    monkeypatch.setattr(significance, "BLOCK", 1)  # the fewest resamples at a time, 32
    for name, interval in intervals(tallies(GOOD), resamples=70).items():
        assert interval == pytest.approx(whole[name])


def test_the_seed_decides():
    assert intervals(tallies(GOOD), 50, seed=1) == intervals(tallies(GOOD), 50, seed=1)
    assert intervals(tallies(GOOD), 50, seed=1) != intervals(tallies(GOOD), 50, seed=2)


def test_the_middle_of_resamples_leaves_out_what_is_no_number():
    values = np.random.default_rng(3).permutation(np.arange(1000.0))
    assert significance.middle(values) == (25.0, 974.0)
    assert significance.middle(np.append(values, np.nan)) == (25.0, 974.0)
    assert np.isnan(significance.middle(np.array([np.nan]))).all()


def test_one_sentence_has_an_interval_of_no_width():
    score = bleu_tally(GOOD[:1], REFERENCES[:1])
    assert intervals({"BLEU": score}, 10)["BLEU"] == (score.score(), score.score())


def test_different_corpora_and_no_resamples_are_refused():
    few = {"BLEU": bleu_tally(GOOD[:3], REFERENCES[:3])}
    with pytest.raises(ValueError, match="same sentences .* not of 3, 40"):
        compare(few, tallies(GOOD))
    with pytest.raises(ValueError, match="0 resamples"):
        intervals(few, 0)
    with pytest.raises(ValueError, match="not of none"):
        intervals({})


def test_systems_with_other_metrics_are_not_compared():
    lines = ["a b c"]
    with pytest.raises(ValueError, match="the metrics are BLEU here, but chrF there"):
        compare({"BLEU": bleu_tally(lines, lines)}, {"chrF": chrf_tally(lines, lines)})
