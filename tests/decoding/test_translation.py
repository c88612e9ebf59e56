"""Lines through models with random weights, against loops, brute force and teacher forcing."""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bahdanau_jax import data, model
from bahdanau_jax.batch import EOS, START, UNK, Batch, pad
from bahdanau_jax.config import PRESETS, DataConfig, DecodingConfig, ModelConfig
from bahdanau_jax.data.tokens import codec
from bahdanau_jax.data.tokens.vocabulary import VOCABULARIES
from bahdanau_jax.decoding import (
    below,
    long_lines,
    programs,
    replace_unknown,
    score,
    search_program,
    translate,
    translation,
)
from bahdanau_jax.decoding.backpointers import NBest
from bahdanau_jax.decoding.translation import _batches, _join_ranks, _prefer_finished
from bahdanau_jax.hypothesis import TOO_LONG, Hypothesis
from bahdanau_jax.model import decoder, interventions
from tests.model import worlds

SOURCE, TARGET = "a b c d e f g", "p q r s t u"
SIZES = worlds.SIZES | {"source_vocabulary": 9, "target_vocabulary": 8}
CODECS = codec.learn(DataConfig(tokenizer="none"), [data.Pair(SOURCE, TARGET)])
CODEC_OF = {  # of each kind of vocabulary
    name: codec.learn(
        DataConfig(
            vocabulary=name, tokenizer="none", joint_vocabulary=True, source_vocabulary_size=12
        ),
        [data.Pair("ab abc cab b a", "bca abc")],
    )[0]
    for name in VOCABULARIES
}
MODELS = {
    "paper": ModelConfig(**SIZES),
    "groundhog": dataclasses.replace(PRESETS["groundhog"], **SIZES | {"output_size": 13}),
    "luong": ModelConfig(**SIZES, order="luong", attention="general"),
    "rnnencdec": ModelConfig(**SIZES, order="groundhog", attention="none"),
}
LINES = ["a b c", "", "g", "f e d c b a", "a x a", "d d", "b c d e", "g g g g g", "x"]
# All lines are a batch, of one program; other sizes of batches have tests of their own.
DECODING = DecodingConfig(beam_size=3, batch_size=len(LINES), max_ratio=2.0)


def weights(config, eos: float = 2.0, unk: float = 0.0):
    """Random weights that read the previous word, with chosen probabilities of EOS and UNK."""
    params = worlds.parameters(config, seed=2)
    params["target_embedding"]["E"] *= 3
    for bias in (params["decoder"]["b"], params["readout"]["b_o"], params["output"]["b_w"]):
        bias[:] = 0
    params["output"]["b_w"][[EOS, UNK]] = eos, unk
    return jax.tree.map(jnp.asarray, params)


def translated(config, params, lines, n_best=1, **settings):
    decoding = dataclasses.replace(DECODING, **settings)
    return translate(config, params, CODECS, decoding, lines, n_best)


@pytest.fixture(scope="module", params=worlds.each("paper", of=MODELS))
def world(request):
    config = MODELS[request.param]
    return config, weights(config)


def assert_same(ours, theirs):
    """Compare n-best lists; only hypotheses with nearly equal scores may change places."""
    assert len(ours) == len(theirs)
    np.testing.assert_allclose([h.score for h in ours], [h.score for h in theirs], atol=1e-5)
    for h in ours:
        (twin,) = (t for t in theirs if t.tokens == h.tokens)
        assert abs(twin.score - h.score) < 1e-5
        assert twin == dataclasses.replace(
            h, score=twin.score, log_probabilities=twin.log_probabilities
        )
        np.testing.assert_allclose(h.log_probabilities, twin.log_probabilities, atol=1e-5)
        np.testing.assert_allclose(h.alpha, twin.alpha, atol=1e-5)


def test_batch_size_order_and_neighbours_change_nothing(world):
    together = translated(*world, LINES, 3)
    alone = [translated(*world, [line], 3, batch_size=1)[0] for line in LINES]
    backwards = translated(*world, LINES[::-1], 3, batch_size=5)[::-1]
    for all_ways in zip(together, alone, backwards, strict=True):
        assert_same(all_ways[0], all_ways[1])
        assert_same(all_ways[0], all_ways[2])


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"beam_size": 3}, id="beam"),
        pytest.param({"beam_size": 1}, id="greedy", marks=pytest.mark.slow),
        pytest.param({"method": "sample", "temperature": 0.7}, id="sample", marks=pytest.mark.slow),
    ],
)
def test_a_model_with_tied_embeddings_translates_as_its_twin(settings):
    config = ModelConfig(**SIZES | {"readout_size": 3}, tied_embeddings=True)
    params = weights(config)
    n_best = settings.get("beam_size", 3)
    ours = translated(config, params, LINES, n_best, **settings)
    theirs = translated(worlds.untied(config), worlds.twin(params), LINES, n_best, **settings)
    for one, other in zip(ours, theirs, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        np.testing.assert_allclose([h.score for h in one], [h.score for h in other], atol=1e-5)
    assert len({h.tokens for row in ours for h in row}) > 5


@pytest.mark.parametrize(
    "lines, first, narrows", [(5, 0, False), (6, 0, True), (1, 4, False), (1, 5, True)]
)
def test_only_a_text_of_many_batches_is_worth_a_second_loop(monkeypatch, lines, first, narrows):
    asked, search = [], translation.search

    def recorded(*args):
        asked.append(args[-1])
        return search(*args)

    monkeypatch.setattr(translation, "search", recorded)
    monkeypatch.setattr(translation, "MANY_BATCHES", 3)
    config = MODELS["paper"]
    given = config, weights(config), CODECS, dataclasses.replace(DECODING, batch_size=2)
    translate(*given, ["a b"] * lines, 1, numbers=range(first, first + lines))
    assert asked == [narrows] * math.ceil(lines / 2)


def test_programs_compiled_ahead_are_those_of_full_batches():
    config = MODELS["paper"]
    params, decoding = weights(config), dataclasses.replace(DECODING, batch_size=32)
    for compile_program in programs(config, params, decoding, 8):
        compile_program()
    compiled = search_program._search._cache_size()
    translate(config, params, CODECS, decoding, ["a b"] * 32, 1)
    assert search_program._search._cache_size() == compiled > 0


def test_likely_translations_score_alike_at_every_batch_size():
    """Scores agree to 1e-5, where log-probabilities are much smaller than the logits."""
    config = MODELS["paper"]
    params = weights(config, eos=0.0)
    params["output"]["W_o"] *= 4
    params["output"]["b_w"] += 50
    together = translated(config, params, LINES, 3)
    alone = [translated(config, params, [line], 3, batch_size=1)[0] for line in LINES]
    one, many = ([found[0] for found in way] for way in (alone, together))
    assert [h.tokens for h in one] == [h.tokens for h in many]
    np.testing.assert_allclose([h.score for h in one], [h.score for h in many], rtol=1e-5, atol=0)


def test_n_best_lists_are_sorted_and_repeat_nothing(world):
    for hypotheses in translated(*world, LINES, 3):
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({h.tokens for h in hypotheses}) == len(hypotheses)
        for h in hypotheses:
            assert math.isclose(h.score, sum(h.log_probabilities), abs_tol=1e-5)
            assert h.finished == (h.tokens[-1] == "</s>")
            np.testing.assert_allclose(h.alpha.sum(1), 1, atol=1e-5)
    assert translated(*world, LINES, 1) == [row[:1] for row in translated(*world, LINES, 3)]


def test_of_several_ways_to_write_a_text_the_likeliest_stays():
    def found(text, tokens, score):
        tokens = (*tokens, "</s>")
        alpha = np.ones((len(tokens), 1), np.float32)
        return Hypothesis(text, tokens, (0.0,) * len(tokens), score, True, ("</s>",), alpha)

    one, other, again = found("ab", "ab", -1.0), found("c", "c", -2.0), found("ab", ["ab"], -3.0)
    samples = dataclasses.replace(DECODING, method="sample")
    assert _join_ranks([[one, other, again]], DECODING) == [one, other]
    assert _join_ranks([[one, other, again]], samples) == [one, other, again]


def test_forced_decoding_gives_the_same_score_and_alignment(world):
    sources, found = [], []
    for line, hypotheses in zip(LINES, translated(*world, LINES, 3), strict=True):
        kept = [h for h in hypotheses if h.finished]
        sources, found = sources + [line] * len(kept), found + kept
    assert len(found) > 3
    forced = score(*world, CODECS, DECODING, sources, [h.text for h in found])
    for ours, theirs in zip(found, forced, strict=True):
        assert ours.tokens == theirs.tokens and ours.source_tokens == theirs.source_tokens
        assert math.isclose(ours.score, theirs.score, abs_tol=1e-4)
        np.testing.assert_allclose(ours.log_probabilities, theirs.log_probabilities, atol=1e-4)
        np.testing.assert_allclose(ours.alpha, theirs.alpha, atol=1e-5)


@pytest.mark.slow
def test_rounded_products_are_searched_and_forced_alike():
    """The search is greedy, because a beam folds the memory and rounds other factors."""
    world = MODELS["paper"], weights(MODELS["paper"])
    exact = [one for (one,) in translated(*world, LINES, 1, beam_size=1)]
    found = [one for (one,) in translated(*world, LINES, 1, beam_size=1, compute_dtype="bfloat16")]
    ended = [row for row, h in enumerate(found) if h.finished]
    assert ended and [h.score for h in found] != [h.score for h in exact]
    rounded = dataclasses.replace(DECODING, compute_dtype="bfloat16")
    lines, texts = [LINES[row] for row in ended], [found[row].text for row in ended]
    forced = {
        settings.compute_dtype: np.array(
            [h.score for h in score(*world, CODECS, settings, lines, texts)]
        )
        for settings in (rounded, DECODING)
    }
    ours = np.array([found[row].score for row in ended])
    np.testing.assert_allclose(ours, forced["bfloat16"], atol=1e-2)
    assert np.abs(ours - forced["bfloat16"]).sum() < np.abs(ours - forced["model"]).sum() / 4


SCALES = {
    "average": {"length_normalization": "average"},
    "wu and coverage": {"length_normalization": "wu", "alpha": 1.0, "coverage": 0.4},
    "coverage and a least length": {"coverage": 1.5, "min_ratio": 1.0},
}
# Fast tests: every scale with a model, and two models with a scale.
SCALED = {("paper", scale) for scale in SCALES}


@pytest.mark.parametrize(
    ("world", "scale"),
    [
        pytest.param(*case, marks=() if case in SCALED else pytest.mark.slow)
        for case in itertools.product(MODELS, SCALES)
    ],
    indirect=["world"],
)
def test_scores_of_every_scale_are_those_of_forced_decoding(world, scale):
    settings = SCALES[scale]
    found = translated(*world, LINES, 2, **settings)
    pairs = [(x, h) for x, each in zip(LINES, found, strict=True) for h in each if h.finished]
    decoding = dataclasses.replace(DECODING, **settings)
    texts = [h.text for _, h in pairs]
    forced = score(*world, CODECS, decoding, [x for x, _ in pairs], texts)
    assert forced
    for (_, ours), theirs in zip(pairs, forced, strict=True):
        assert ours.tokens == theirs.tokens
        assert math.isclose(ours.score, theirs.score, abs_tol=1e-4)
        np.testing.assert_allclose(ours.alpha, theirs.alpha, atol=1e-5)


def test_a_least_length_is_kept(world):
    for line, (h,) in zip(LINES, translated(*world, LINES, min_ratio=1.0), strict=True):
        source = len(CODECS[0].encode(line))
        assert len(h.tokens) > source if h.finished else len(h.tokens) == 2 * source


def test_translations_begin_with_their_prefix(world):
    prefixes = ["p q", "", "r", "s s s", "", "u", "q", "", "t t"]
    free = translated(*world, LINES, 3)
    begun = translate(*world, CODECS, DECODING, LINES, 3, prefixes)
    for prefix, ours, was in zip(prefixes, begun, free, strict=True):
        if prefix:
            for h in ours:
                assert h.tokens[: len(prefix.split())] == tuple(prefix.split())
                assert math.isclose(h.score, sum(h.log_probabilities), rel_tol=1e-5)
        else:
            assert_same(ours, was)
    # What search finds by itself, it finds again where its beginning is given.
    whole = [h.text if h.finished else "" for (h, *_) in free]
    again = translate(*world, CODECS, DECODING, LINES, 3, whole)
    for (h, *_), (was, *_) in zip(again, free, strict=True):
        if was.finished:
            assert h.tokens[: len(was.tokens) - 1] == was.tokens[:-1]
    with pytest.raises(ValueError, match="9 lines but 1 prefixes"):
        translate(*world, CODECS, DECODING, LINES, 1, ["p"])


def test_a_prefix_longer_than_the_limit_still_has_its_end():
    config = MODELS["paper"]
    prefix = f"{TARGET} {TARGET}"
    ((h,),) = translate(config, weights(config, eos=9.0), CODECS, DECODING, ["a"], 1, [prefix])
    assert h.finished and " ".join(h.tokens) == f"{prefix} </s>"


@pytest.mark.parametrize("words", [16, 24])
def test_a_prefix_that_fills_its_padded_length_still_has_its_end(words):
    config, prefix = MODELS["paper"], ["p"] * words
    given = config, weights(config, eos=9.0), CODECS, DECODING
    ((h,),) = translate(*given, ["a"], 1, [" ".join(prefix)])
    assert h.finished and h.tokens == (*prefix, "</s>")


@pytest.mark.parametrize("method", ["beam", "sample"])
@pytest.mark.parametrize("prefix", ["p q", "p Zorglub s Bob"])
def test_a_prefix_keeps_words_that_the_model_does_not_know(method, prefix):
    config, line = MODELS["paper"], "a b"
    decoding = dataclasses.replace(DECODING, method=method)
    ((h,),) = translate(config, weights(config), CODECS, decoding, [line], 1, [prefix])
    words = prefix.split()
    assert h.tokens[: len(words)] == tuple(words)
    # UNK replacement does not change the prefix.
    for text in (h.text, replace_unknown(h, CODECS, line).text):
        assert text.split()[: len(words)] == words and "</s>" not in text


def test_samples_go_by_seed_and_line_whatever_they_are_drawn_with():
    config = MODELS["groundhog"]
    world = config, weights(config)
    how = {"method": "sample", "temperature": 1.5}
    together = translated(*world, LINES, 3, **how)
    settings = dataclasses.replace(DECODING, **how, batch_size=1)
    for line, number in ((LINES[6], 6), (LINES[3], 3)):
        (alone,) = translate(*world, CODECS, settings, [line], 3, numbers=[number])
        assert [h.tokens for h in alone] == [h.tokens for h in together[number]]
    other = translated(*world, LINES, 3, **how, seed=2)
    assert [h.tokens for each in other for h in each] != [
        h.tokens for each in together for h in each
    ]


def test_the_pieces_of_a_long_line_have_draws_of_their_own():
    config, line = MODELS["groundhog"], " ".join(["a b"] * 12)
    how = dict(method="sample", temperature=1.5, max_source=2)
    ((h,),) = translated(config, weights(config), [line], **how)
    parts = [h.tokens[start:end] for start, end in itertools.pairwise([0, *h.seams, None])]
    assert len(parts) == 12 and len(set(parts)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_sample_is_the_same_however_many_there_are(name):
    """Also where products are rounded: one sample and several are computed alike."""
    world = MODELS[name], weights(MODELS[name])
    how = {"method": "sample", "temperature": 1.5, "compute_dtype": "bfloat16"}
    one, three = (translated(*world, LINES, n, **how) for n in (1, 3))
    for (alone,), (first, *_) in zip(one, three, strict=True):
        assert alone.tokens == first.tokens
        np.testing.assert_allclose(alone.log_probabilities, first.log_probabilities, atol=1e-5)
        np.testing.assert_allclose(alone.alpha, first.alpha, atol=1e-6)


def test_other_weights_than_attention_have_no_coverage_term_and_no_intervention(world):
    pair = ["a b c"], ["p q r"]
    covered = dataclasses.replace(DECODING, coverage=0.4)
    scores = {
        (name, settings.coverage): score(*world, CODECS, settings, *pair, weights=name)[0].score
        for name in ("attention", "saliency")
        for settings in (DECODING, covered)
    }
    assert scores["saliency", 0.4] == pytest.approx(scores["attention", 0.0], abs=1e-5)
    assert scores["attention", 0.4] < scores["attention", 0.0] - 0.01
    masked = interventions.mask(jnp.ones((1, 8), bool))
    with pytest.raises(ValueError, match="it cannot be used with saliency"):
        score(*world, CODECS, DECODING, *pair, weights="saliency", intervention=masked)


def test_more_translations_than_any_beam_are_refused():
    world = MODELS["paper"], weights(MODELS["paper"])
    with pytest.raises(ValueError, match="n_best is 2,000, but should be at most 1,000"):
        translated(*world, LINES, 2000)


def test_how_often_a_beam_ends_below():
    def scored(score, finished=True):
        return Hypothesis("", (), (), score, finished, (), np.zeros((0, 0), np.float32))

    wide = [scored(-1.0), scored(-3.0), scored(-2.00001), scored(-9.0, False), scored(-9.0)]
    narrow = [scored(-2.0), scored(-2.0), scored(-2.0), scored(-1.0), scored(-1.0, False)]
    assert below(wide, narrow) == [1]


def greedy(config, params, line):
    """(ids, log-probabilities, α) by the likeliest word at every step."""
    source, mask = pad([CODECS[0].encode(line)], 8)
    memory = jax.jit(model.encode, static_argnums=0)(config, params, source, mask)
    step = jax.jit(lambda memory, *inputs: decoder.stepper(config, params, memory)(*inputs))
    token, state, made = START, model.start(memory), []
    for _ in range(math.ceil(DECODING.max_ratio * mask.sum())):
        log_p, state, alpha = step(memory, jnp.full(1, token), state)
        token = int(log_p[0].argmax())
        made.append((token, float(log_p[0, token]), alpha[0, : mask.sum()]))
        if token == EOS:
            break
    return zip(*made, strict=True)


def test_a_beam_of_one_is_greedy(world):
    for line, (h,) in zip(LINES[:5], translated(*world, LINES[:5], beam_size=1), strict=True):
        ids, log_p, alpha = greedy(*world, line)
        assert h.tokens == CODECS[1].tokens(ids)
        np.testing.assert_allclose(h.log_probabilities, log_p, atol=1e-5)
        np.testing.assert_allclose(h.alpha, np.stack(alpha), atol=1e-5)


def everything(config, params, line, limit):
    """(score, ids) of every finished translation of at most `limit` words, best first."""
    words = range(1, config.target_vocabulary)
    targets = [[*ids, EOS] for n in range(limit) for ids in itertools.product(words, repeat=n)]
    ids = CODECS[0].encode(line)
    source = pad([ids] * len(targets), len(ids))
    batch = Batch(*source, *pad(targets, limit), np.ones(len(targets), np.float32))
    log_p = jax.jit(model.teacher_forced, static_argnums=0)(config, params, batch).log_p
    scores = np.where(batch.target_mask, log_p, 0).sum(1)
    return sorted(zip(scores.tolist(), map(tuple, targets), strict=True), reverse=True)


@pytest.mark.parametrize("name", worlds.each("groundhog", of=["paper", "groundhog"]))
def test_a_beam_that_holds_everything_finds_what_brute_force_finds(name):
    config = dataclasses.replace(MODELS[name], target_vocabulary=4)
    params = weights(config)
    expected = everything(config, params, "b", limit=4)
    (found,) = translated(config, params, ["b"], 50, beam_size=4 * 27)
    assert len(found) == len(expected) == 1 + 3 + 9 + 27
    np.testing.assert_allclose([h.score for h in found], [s for s, _ in expected], atol=1e-4)
    scores = {CODECS[1].tokens(ids): score for score, ids in expected}
    for h in found:
        assert math.isclose(h.score, scores.pop(h.tokens), abs_tol=1e-4)
    assert not scores


@pytest.fixture(scope="module")
def endless():
    """A model that never ends a sentence, and likes unknown words."""
    return MODELS["groundhog"], weights(MODELS["groundhog"], eos=-50)


def test_what_has_not_ended_at_the_limit_is_flagged(endless):
    for line, (h,) in zip(LINES, translated(*endless, LINES), strict=True):
        assert not h.finished
        assert len(h.tokens) == math.ceil(DECODING.max_ratio * len(CODECS[0].encode(line)))
        assert "</s>" not in h.tokens and len(h.text.split()) == len(h.tokens)


@pytest.mark.slow
def test_what_has_not_ended_is_sorted_by_its_score(endless):
    settings = {"beam_size": 4, "coverage": 50.0, "max_ratio": 0.5}
    wide = translated(*endless, LINES, 4, **settings)
    for found, (best,) in zip(wide, translated(*endless, LINES, 1, **settings), strict=True):
        scores = [h.score for h in found]
        assert scores == sorted(scores, reverse=True)
        assert best.tokens == found[0].tokens
    totals = [[sum(h.log_probabilities) for h in found] for found in wide]
    assert any(each != sorted(each, reverse=True) for each in totals)


def test_banned_unknown_words():
    likes = MODELS["groundhog"], weights(MODELS["groundhog"])
    free = [h for (h,) in translated(*likes, LINES)]
    programs = search_program._search._cache_size()
    banned = [h for (h,) in translated(*likes, LINES, ban_unk=True)]
    assert (
        search_program._search._cache_size() == programs
    )  # one program searches with and without it
    assert any("<unk>" in h.tokens for h in free)
    for h, was in zip(banned, free, strict=True):
        # Where the ban leaves nothing that ends, it is lifted.
        assert "<unk>" not in h.tokens or (h.finished and h == was)
    assert any("<unk>" in was.tokens and h != was for h, was in zip(banned, free, strict=True))


def test_a_ban_on_unk_is_lifted_for_a_sentence_and_never_for_its_neighbours():
    likes = MODELS["groundhog"], weights(MODELS["groundhog"])
    batched, alone = (
        translated(*likes, LINES, 3, ban_unk=True, batch_size=size) for size in (len(LINES), 1)
    )
    texts = [[[h.tokens for h in hypotheses] for hypotheses in each] for each in (batched, alone)]
    assert texts[0] == texts[1]


def test_the_first_hypothesis_says_whether_the_ban_is_lifted():
    """Cases by hand: the result without the ban is used only where it alone is finished."""
    finished = {
        "ends under the ban": ([True, False], [True, True], False),
        "ends without it": ([False, True], [True, False], True),
        "never ends": ([False, False], [False, True], False),
    }
    banned, free = (
        NBest(
            tokens=np.full((3, 2, 4), word),
            log_probabilities=np.zeros((3, 2, 4)),
            aux=np.zeros((3, 2, 4, 5)),
            score=np.zeros((3, 2)),
            length=np.full((3, 2), 4),
            finished=np.array([case[word] for case in finished.values()]),
        )
        for word in (0, 1)
    )
    chosen = _prefer_finished(banned, free)
    lifted = [case[2] for case in finished.values()]
    assert (chosen.tokens == np.array(lifted)[:, None, None]).all()


def test_the_ban_on_unk_is_lifted_where_only_unk_leads_to_the_end():
    """EOS follows UNK and nothing else: with the ban, no translation ends."""
    config = MODELS["groundhog"]
    params = jax.tree.map(jnp.zeros_like, weights(config))
    params["target_embedding"]["E"] = params["target_embedding"]["E"].at[UNK].set(1)
    params["readout"]["V_o"] = params["readout"]["V_o"] + 1
    params["output"]["W_1"] = params["output"]["W_1"] + 1
    params["output"]["W_o"] = params["output"]["W_o"].at[:, EOS].set(1)
    params["output"]["b_w"] = params["output"]["b_w"].at[EOS].set(-50)
    for (h,) in translated(config, params, LINES, ban_unk=True):
        assert h.finished and h.tokens == ("<unk>", "</s>")


@pytest.mark.parametrize("method", ["beam", "sample"])
def test_a_ban_on_unk_is_not_lifted_where_that_ends_nothing_or_chance_did_not(endless, method):
    free, banned = (translated(*endless, LINES, ban_unk=b, method=method) for b in (False, True))
    assert any("<unk>" in h.tokens for (h,) in free) and not any(h.finished for (h,) in banned)
    assert not any("<unk>" in h.tokens for (h,) in banned)


def test_samples_without_unk_stay_so_beside_one_that_has_not_ended():
    world = MODELS["groundhog"], weights(MODELS["groundhog"], eos=-1)
    found = translated(*world, LINES, 3, method="sample", ban_unk=True)
    ends = [[h.finished for h in each] for each in found]
    assert any(each[0] != each[1] for each in ends)
    assert not any("<unk>" in h.tokens for each in found for h in each)


def test_an_empty_line_is_the_end_of_a_sentence_alone():
    config = MODELS["paper"]
    ((h,),) = translated(config, weights(config), [""])
    assert h.source_tokens == ("</s>",)
    np.testing.assert_allclose(h.alpha, np.ones((len(h.tokens), 1)), atol=1e-6)


def test_a_long_line_is_split_and_joined():
    config, line = MODELS["paper"], "a b c d e f g a"
    params = weights(config)
    cuts = ["a b c", "d e f", "g a"]
    ((joined, second),) = translated(config, params, [line], n_best=2, max_source=3)
    lists = translated(config, params, cuts, n_best=2, max_source=3)
    parts = [best for best, _ in lists]
    words = [t for _, h in lists for t in h.tokens if t != "</s>"]
    assert second.tokens == (*words, "</s>") and all(h.finished for _, h in lists)
    for h in (joined, second):
        assert math.isclose(h.score, sum(h.log_probabilities), abs_tol=1e-5)
    assert len({h.tokens for h in parts}) > 1 and all(h.finished for h in parts)
    assert joined.tokens == (*(t for h in parts for t in h.tokens[:-1]), "</s>")
    assert joined.text == " ".join(h.text for h in parts if h.text)
    assert joined.source_tokens == (*line.split(), "</s>")
    assert len(joined.log_probabilities) == len(joined.tokens)
    left, i, j = joined.alpha.copy(), 0, 0
    for h, last in zip(parts, (False, False, True), strict=True):
        rows, columns = len(h.tokens) - (not last), len(h.source_tokens) - (not last)
        block = np.s_[i : i + rows, j : j + columns]
        np.testing.assert_allclose(left[block], h.alpha[:rows, :columns], atol=1e-5)
        left[block] = 0
        i, j = i + rows, j + columns
    assert left.shape == (i, j) and not left.any()


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@given(words=st.lists(st.text("abc", min_size=1, max_size=9), max_size=12), most=st.integers(1, 12))
@settings(max_examples=50)
def test_a_long_line_is_split_between_words(vocabulary, words, most):
    """Each part is the longest that ends with a word; a word that fits in no part is cut."""
    one, line = CODEC_OF[vocabulary], " ".join(words)
    *ids, _ = one.encode(line)
    pieces = long_lines.cut(one, line, most, long_lines.NO_PREFIX, 0)
    assert [i for piece in pieces for i in piece.ids[:-1]] == ids
    starts = [*itertools.accumulate((len(piece.ids) - 1 for piece in pieces), initial=0)]
    begins = [*one.vocabulary.begins_word(ids), True]
    for start, end in itertools.pairwise(starts):
        assert end - start <= most
        longer = range(end + 1, min(start + most, len(ids)) + 1)
        assert not any(begins[i] for i in longer if i < len(ids))
        if not begins[end]:
            assert end - start == most and not any(begins[start + 1 : end])


@pytest.mark.parametrize("search", [{}, {"n_best": 3}, {"n_best": 2, "method": "sample"}])
def test_a_line_whose_weights_would_fill_the_memory_is_left_out(monkeypatch, search):
    config = MODELS["paper"]
    params, lines = weights(config), ["a", "a b c d e f g a", "g f"]
    whole = translated(config, params, lines, max_source=3, **search)
    monkeypatch.setattr(long_lines, "LONGEST", 7)
    found = translated(config, params, lines, max_source=3, **search)
    assert found == [whole[0], [TOO_LONG], whole[2]]
    assert not TOO_LONG.finished and not TOO_LONG.text


def test_so_is_a_line_with_such_a_prefix(monkeypatch):
    config = MODELS["paper"]
    monkeypatch.setattr(long_lines, "LONGEST", 3)
    prefixes = ["p q p q", "p q p", ""]
    asked = (config, weights(config), CODECS, DECODING, ["a", "a", "a b c d"], 1, prefixes)
    finished = []
    left_out, (kept,), too_long = translate(*asked, advance=finished.append)
    assert sum(finished) == 3  # the lines that are too long count too
    assert left_out == too_long == [TOO_LONG]
    assert kept.tokens[:3] == ("p", "q", "p")


def test_lines_are_searched_with_others_of_about_as_many_steps():
    """Otherwise every line of the batch would take as many steps as the long prefix."""
    decoding = dataclasses.replace(DECODING, max_ratio=2.0, max_source=10, batch_size=2)

    def piece(source, prefix=0):
        given = long_lines.Prefix([0] * prefix, ("p",) * prefix)
        return long_lines.Piece([0] * source, ("a",) * source, given, (0, 0))

    def batches(*each):
        return [*_batches(decoding, each)]

    assert batches(piece(3), piece(11), piece(9)) == [([1, 2], 12), ([0], 8)]
    assert batches(piece(3), piece(11), piece(9, 16)) == [([1, 2], 12), ([0], 8)]
    assert batches(piece(3, 17), piece(11), piece(9)) == [([1, 0], 12), ([2], 12)]
    assert batches(piece(3, 99), piece(11), piece(9)) == [([0], 8), ([1, 2], 12)]


def test_a_line_of_just_the_longest_length_stays_whole():
    config = MODELS["paper"]
    params = weights(config)
    assert translated(config, params, ["a b c"], max_source=3) == translated(
        config, params, ["a b c"]
    )


def test_a_beam_too_small_for_the_list_is_refused():
    with pytest.raises(ValueError, match="set the beam size to at least 4"):
        translated(MODELS["paper"], {}, ["a"], n_best=4)
    for method in search_program.METHODS:
        with pytest.raises(ValueError, match="n_best is 0, but should be at least 1"):
            translated(MODELS["paper"], {}, ["a"], n_best=0, method=method)
