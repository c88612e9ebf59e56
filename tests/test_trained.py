"""A trained run: its weights, its ensembles, and the settings of its search."""

import dataclasses
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bahdanau_jax as bj
from bahdanau_jax import data, exchange, export
from bahdanau_jax.checkpoints import Checkpointer
from bahdanau_jax.decoding import LONGEST, below, long_lines
from bahdanau_jax.hypothesis import EMPTY, TOO_LONG
from bahdanau_jax.report import report
from bahdanau_jax.run_folder import CHECKPOINTS

LINES = ["We sleep.", "", "I am tired in Canada.", "The man saw a house.", "He sleeps.", "No."]


@pytest.fixture(scope="module")
def run(trained):
    return bj.load(trained[0])


def test_the_run_of_these_tests_writes_sentences(run):
    """Where every translation is empty, most comparisons of translations cannot fail."""
    pairs = data.pairs(run.config.data.test, run.config.data)
    texts = {best.text for best in run.translate([pair.source for pair in pairs])}
    assert len(texts) >= 5 and all(texts)


def test_a_run_that_samples_can_search_with_a_beam(run):
    """Its settings of sampling do not count then; those of the caller are refused."""
    samples = bj.DecodingConfig(method="sample", temperature=0.7, top_p=0.9)
    config = dataclasses.replace(run.config, decoding=samples)
    sampling = dataclasses.replace(run, config=config)
    assert sampling.searching(method="beam") == bj.DecodingConfig()
    assert sampling.searching(seed=3) == dataclasses.replace(samples, seed=3)
    with pytest.raises(ValueError, match="temperature is 0.5, but only sampling uses it"):
        sampling.searching(method="beam", temperature=0.5)


@pytest.mark.slow
def test_a_model_is_loaded_without_what_trains_or_draws(trained):
    code = (
        "import sys, bahdanau_jax as bj; bj.load(sys.argv[1]).config;"
        "print({'optax', 'flax', 'tensorboardX', 'rich', 'matplotlib', 'tensorflow', 'grain'}"
        " & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(trained[0])], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "set()\n", done.stderr


# The parts of the package that translating uses; all others stay unread.
TRANSLATING = (
    "aligner alignment atomic batch checkpoints cli compiler_faults compression config data "
    "decoding distributed distribution hypothesis model names pairing parsing reported_scores "
    "reporting run_folder splits trained user_code user_errors variants"
)
NOT_FOR_TRANSLATING = (
    "fastapi flax grain loky matplotlib optax PIL prometheus_client sacrebleu safetensors scipy "
    "sentencepiece tensorboardX tensorflow tensorflow_datasets uvicorn"
)


def test_translating_imports_nothing_that_it_does_not_need(trained):
    """scipy.stats alone took as long to import as the rest of the package with JAX."""
    code = (
        "import json, sys; from bahdanau_jax.cli.main import main\n"
        "assert main(['translate', '--run', sys.argv[1]]) == 0\n"
        "print(json.dumps([*sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(trained[0])],
        input=LINES[0],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert not {name.split(".")[0] for name in loaded} & set(NOT_FOR_TRANSLATING.split())
    parts = {name.split(".")[1] for name in loaded if name.startswith("bahdanau_jax.")}
    assert parts == set(TRANSLATING.split())


@pytest.mark.slow
def test_training_begins_without_what_draws():
    code = "import sys, bahdanau_jax.run; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "False\n", done.stderr


def saved(folder, step):
    checkpoints = Checkpointer(folder / CHECKPOINTS)
    (found,) = [
        state["params"]
        for at, state in zip(
            sorted(checkpoints.steps(), reverse=True),
            checkpoints.choose({"params": bj.load(folder).params}, "newest", 2)[0],
            strict=False,
        )
        if at == step
    ]
    checkpoints.close()
    return found


def equal(ours, theirs):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7), ours, theirs)


def test_checkpoints_are_averaged(trained):
    folder = trained[0]
    checkpoints = Checkpointer(folder / CHECKPOINTS)
    newest, older = sorted(checkpoints.steps(), reverse=True)[:2]
    checkpoints.close()
    one, two = saved(folder, newest), saved(folder, older)
    assert not np.allclose(one["output"]["W_o"], two["output"]["W_o"])
    equal(bj.load(folder, checkpoint="newest").params, one)
    equal(bj.load(folder, checkpoint=str(older)).params, two)
    averaged = bj.load(folder, checkpoint="newest", average=2)
    equal(averaged.params, jax.tree.map(lambda a, b: (np.asarray(a) + np.asarray(b)) / 2, one, two))


def test_a_line_that_is_too_long_is_empty_and_not_finished(run, monkeypatch):
    monkeypatch.setattr(long_lines, "LONGEST", 3)
    lines = ["We sleep.", "", "The man saw a house."]
    found = run.translate(lines, n_best=2)
    assert found[0] == run.translate(lines[:1], n_best=2)[0]
    assert found[1:] == [[EMPTY], [TOO_LONG]]
    assert run.translate(lines)[2] == TOO_LONG


def test_a_run_is_loaded_where_float64_is_on(trained):
    with jax.enable_x64(True):
        run = bj.load(trained[0])
        assert {leaf.dtype for leaf in jax.tree.leaves(run.params)} == {np.dtype("float32")}


def test_weights_that_are_not_there_are_refused(trained):
    folder = trained[0]
    with pytest.raises(
        ValueError, match="holds . checkpoints, not 9: ask for fewer, or train with"
    ):
        bj.load(folder, average=9)
    with pytest.raises(ValueError, match="0 checkpoints cannot be averaged"):
        bj.load(folder, average=0)
    with pytest.raises(ValueError, match="no checkpoint 'last'; known: best, newest"):
        bj.load(folder, checkpoint="last")
    with pytest.raises(ValueError, match=r"no checkpoint of step 999; there are those of \d+, "):
        bj.load(folder, checkpoint="999")
    with pytest.raises(ValueError, match="2 checkpoints cannot be averaged: step 30 is one"):
        bj.load(folder, checkpoint="30", average=2)
    with pytest.raises(ValueError, match="has no weights 'ema'; it has params"):
        bj.load(folder, weights="ema")


@pytest.mark.slow
def test_the_moving_average_or_the_weights_themselves(trained, tmp_path):
    config = bj.Config.load(trained[0] / "config.json")
    config = dataclasses.replace(config, optimizer=dataclasses.replace(config.optimizer, ema=0.9))
    run = bj.load(trained[0])
    checkpoints = Checkpointer(tmp_path / CHECKPOINTS, keep=1)
    halved = jax.tree.map(lambda leaf: leaf / 2, run.params)
    checkpoints.save(1, {"params": run.params, "ema": halved})
    checkpoints.close()
    config.save(tmp_path / "config.json")
    (tmp_path / "vocabulary").symlink_to(trained[0] / "vocabulary")
    equal(bj.load(tmp_path).params, halved)
    equal(bj.load(tmp_path, weights="ema").params, halved)
    equal(bj.load(tmp_path, weights="params").params, run.params)


@pytest.mark.slow
def test_a_damaged_best_checkpoint_is_named_by_all_that_load_it(trained, tmp_path, caplog):
    folder = shutil.copytree(trained[0], tmp_path / "copy")
    best = bj.load(folder).chosen.used[0]
    assert not caplog.records
    path = folder / "checkpoints" / str(best.step) / "_CHECKPOINT_METADATA"
    path.write_bytes(path.read_bytes().replace(b"e", b"f", 1))
    run = bj.load(folder)
    told = f"checkpoints/{best.step} is damaged: its metadata cannot be read"
    assert told in caplog.text and f"used instead: {run.chosen.used[0]}" in caplog.text
    evaluated = SimpleNamespace(sources=[""], scores={"search": {"method": "beam", "beam_size": 1}})
    assert told in report.summary(run, evaluated)
    caplog.clear()
    exchange.export_weights(folder, tmp_path / "model.safetensors")
    assert told in caplog.text


@pytest.mark.slow
def test_an_ensemble_of_one_and_of_twins_is_the_run_itself(run):
    alone = run.translate(LINES)
    for several in (bj.ensemble([run]), bj.ensemble([run, run])):
        for ours, theirs in zip(several.translate(LINES), alone, strict=True):
            assert ours.tokens == theirs.tokens
            assert math.isclose(ours.score, theirs.score, abs_tol=1e-5)
            np.testing.assert_allclose(ours.alpha, theirs.alpha, atol=1e-5)


def test_an_ensemble_is_not_exported_as_its_first_member(run, tmp_path):
    both = bj.ensemble([run, run])
    with pytest.raises(ValueError, match="export each of its runs"):
        export.write(both, tmp_path / "model")
    with pytest.raises(ValueError, match="export each of its runs"):
        exchange.write_weights(both, tmp_path / "weights.safetensors")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("ends", [True, False])
def test_the_end_of_a_joined_translation_is_scored_where_an_earlier_piece_was_cut_off(run, ends):
    (whole,) = run.score(["We sleep ."], ["Nous dormons ."])
    assert whole.finished and whole.tokens[-1] == "</s>"
    tokens = whole.tokens if ends else whole.tokens[:-1]
    cut = dataclasses.replace(whole, tokens=tokens, finished=False)  # as `long_lines.join` has it
    (found,) = run.score(["We sleep ."], [cut])
    assert found.log_probabilities == pytest.approx(whole.log_probabilities[: len(tokens)])


def test_translations_of_lines_that_were_not_searched_are_scored_as_they_are(run):
    long, advances = "a " * (LONGEST + 1), []
    lines = ["", "We sleep .", long]
    given = run.translate(lines)
    found = run.score(lines, given, advance=advances.append)
    assert found[::2] == [EMPTY, TOO_LONG] and found[1].source_tokens == given[1].source_tokens
    assert sum(advances) == 3
    assert run.score([], []) == [] and run.score([""], [EMPTY]) == [EMPTY]
    (blank,) = run.score([""], ["No."])  # a text is scored with any source
    assert blank.score < 0 and blank.source_tokens == ("</s>",)


@pytest.mark.parametrize("pair", [("a " * (LONGEST + 1), "No."), ("No.", "a " * LONGEST * 2)])
def test_a_pair_that_is_too_long_is_not_scored(run, pair):
    with pytest.raises(ValueError, match=r"sources\[1\] or its target has (20,001|40,000) tokens,"):
        run.score(["No.", pair[0]], ["No.", pair[1]])


def test_an_ensemble_of_ensembles_has_the_members_of_all(run):
    twins = bj.ensemble([run, dataclasses.replace(run, folder=Path("twin"))])
    third = dataclasses.replace(run, folder=Path("third"))
    for several, expected in (
        ([twins, third], [run.folder, Path("twin"), Path("third")]),
        ([third, twins], [Path("third"), run.folder, Path("twin")]),
        ([twins], [run.folder, Path("twin")]),
    ):
        found = bj.ensemble(several)
        assert [each.folder for each in (found, *found.others)] == expected
        assert not any(each.others for each in found.others)


def test_a_line_without_a_token_is_blank(run):
    found = run.translate(["\x01", "We sleep."])
    assert (found[0].text, found[0].tokens) == ("", ()) and found[1].tokens


def test_lines_are_encoded_as_they_are_attended_to(run, trained):
    line = "the man sees the house"
    (best,) = run.translate([line])
    (alone,), (_, among, blank) = run.encode([line]), run.encode(["a", line, ""])
    units, width = len(best.source_tokens), 2 * run.config.model.hidden_size
    assert alone.tokens == best.source_tokens and blank.tokens == ("</s>",)
    assert alone.annotations.shape == (units, width)
    assert alone.initial.shape == (run.config.model.hidden_size,)
    np.testing.assert_allclose(alone.annotations, among.annotations, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="an ensemble has no encoder of its own"):
        bj.ensemble([run, run]).encode([line])


def test_forced_scores_are_on_the_scale_that_is_asked_for(run):
    lines = [line for line in LINES if line]
    short = ["No."] * len(lines)
    plain = run.score(lines, short, length_normalization="none")
    scaled = run.score(lines, short, length_normalization="average", coverage=0.3)
    for ours, theirs in zip(plain, scaled, strict=True):
        assert math.isclose(ours.score, sum(ours.log_probabilities), abs_tol=1e-4)
        missed = np.log(np.clip(theirs.alpha[:, :-1].sum(0), 1e-6, 1)).sum()
        expected = ours.score / len(ours.tokens) + 0.3 * missed
        assert math.isclose(theirs.score, expected, abs_tol=1e-4)
    assert any(one.alpha[:, :-1].sum(0).min() < 0.9 for one in scaled)  # so that coverage counts
    for ours, theirs in zip(
        plain, run.score(lines, short, length_normalization="wu", alpha=1.3), strict=True
    ):
        expected = ours.score / ((5 + len(ours.tokens)) / 6) ** 1.3
        assert math.isclose(theirs.score, expected, abs_tol=1e-4)


def test_an_ensemble_scores_as_it_translates(run, trained):
    both = bj.ensemble([run, bj.load(trained[0], average=2)])
    # A model that has hardly learned would end at once.
    found = both.translate(LINES, min_ratio=0.5)
    assert sum(len(h.tokens) > 1 for h in found) == 5
    _alike(found, both.score(LINES, found))


@pytest.mark.parametrize(
    "how", [{"min_ratio": 0.5}, {"method": "sample", "temperature": 2.0, "max_ratio": 2.0}]
)
def test_hypotheses_are_forced_in_their_own_tokens(run, how):
    """This holds for hypotheses whose text has other tokens, and for unfinished ones."""
    ranked = run.translate(LINES, n_best=3, **how)
    pairs = [(line, h) for line, each in zip(LINES, ranked, strict=True) for h in each]
    found = [h for _, h in pairs]
    if "method" in how:
        assert not all(h.finished for h in found)
        assert any(run.codecs[1].units(h.text)[: len(h.tokens)] != h.tokens for h in found)
    _alike(found, run.score([line for line, _ in pairs], found, **how))


def _alike(found, forced):
    for ours, theirs in zip(found, forced, strict=True):
        assert (ours.text, ours.finished) == (theirs.text, theirs.finished)
        assert ours.tokens == theirs.tokens and ours.source_tokens == theirs.source_tokens
        assert math.isclose(ours.score, theirs.score, abs_tol=1e-4)
        np.testing.assert_allclose(ours.log_probabilities, theirs.log_probabilities, atol=1e-4)
        np.testing.assert_allclose(ours.alpha, theirs.alpha, atol=1e-5)


def test_runs_of_different_vocabularies_do_not_translate_together(run, trained, tmp_path):
    other = tmp_path / "other"
    source, target = run.codecs
    changed = dataclasses.replace(target, config=dataclasses.replace(target.config, lowercase=True))
    theirs = dataclasses.replace(run, folder=other, codecs=(source, changed))
    with pytest.raises(ValueError, match="other have different target vocabularies, and cannot"):
        bj.ensemble([run, theirs])
    with pytest.raises(ValueError, match="an ensemble needs at least one run"):
        bj.ensemble([])


def test_settings_of_the_search_by_name(run):
    assert run.translate(LINES, length_normalization="average", coverage=0.3) != run.translate(
        LINES
    )
    wrong = {
        "no setting of the search 'beam'; known: alpha, ban_unk": {"beam": 3},
        "n_best is 0, but should be at least 1": {"n_best": 0},
        "decoding.coverage is -1, but should be at least 0": {"coverage": -1},
        "decoding.top_p is 1.5, but should be above 0 and at most 1": {"top_p": 1.5},
        "decoding.temperature is 1e-39, but should be between": {"temperature": 1e-39},
        "decoding.temperature is inf, but should be between": {"temperature": float("inf")},
        "no decoding.method 'beem'; known: beam, sample": {"method": "beem"},
        "decoding.top_k is 5, but only sampling uses it: set decoding.method": {"top_k": 5},
        "decoding.min_ratio is 3.0, but should be below decoding.max_ratio": {"min_ratio": 3.0},
        "decoding.seed is 2147483648, but should be below": {"method": "sample", "seed": 1 << 31},
    }
    for message, given_ in wrong.items():
        with pytest.raises(ValueError, match=message):
            run.translate(LINES, **given_)
    without = dataclasses.replace(
        run,
        config=dataclasses.replace(
            run.config, model=dataclasses.replace(run.config.model, attention="none")
        ),
    )
    with pytest.raises(ValueError, match="decoding.coverage needs attention"):
        without.translate(LINES, coverage=0.1)


@settings(max_examples=8, derandomize=True)
@given(order=st.permutations(range(len(LINES))), batch_size=st.sampled_from([1, 12]))
def test_order_batch_size_and_padding_change_nothing(run, order, batch_size):
    """Words, scores and α stay the same, also beside a longer line, which adds padding."""
    long = "The man saw a white house in Canada and the woman saw a black dog in Europe ."
    lines = [LINES[row] for row in order]
    alone = run.translate(LINES, batch_size=12)
    for ours in (
        run.translate(lines, batch_size=batch_size),
        run.translate([*lines, long], batch_size=batch_size),
    ):
        for row, h in zip(order, ours, strict=False):
            assert h.tokens == alone[row].tokens
            np.testing.assert_allclose(h.score, alone[row].score, rtol=1e-5)
            np.testing.assert_allclose(h.alpha, alone[row].alpha, atol=1e-5)


@pytest.mark.slow
def test_each_preset_is_a_search_that_works(run):
    for name, preset in bj.SEARCHES.items():
        given = {**dataclasses.asdict(preset), "batch_size": 12}
        found = run.translate(LINES, **given)
        assert len(found) == len(LINES) and found[1].text == "", name


def test_prefixes_and_samples_skip_blank_lines(run):
    begun = run.translate(LINES, prefixes=["Je", "x", "", "", "", ""])
    assert begun[0].text.startswith("Je") and begun[1].text == ""
    with pytest.raises(ValueError, match="6 lines but 2 prefixes"):
        run.translate(LINES, prefixes=["a", "b"])
    how = {"method": "sample", "n_best": 4, "seed": 5}
    drawn = run.translate(LINES, **how)
    assert [len(each) for each in drawn] == [4, 1, 4, 4, 4, 4]
    later = run.translate(LINES[3:], first=3, **how)
    assert [[h.tokens for h in each] for each in later] == [
        [h.tokens for h in each] for each in drawn[3:]
    ]
    assert run.translate(LINES[3:], first=[3, 4, 5], **how) == later
    with pytest.raises(ValueError, match="3 lines but 4 numbers"):
        run.translate(LINES[3:], first=[3, 4, 5, 6])


def test_a_wider_beam_is_seldom_below(run):
    """A wider beam may find a worse score, but only rarely."""
    wide, narrow = run.translate(LINES, beam_size=12), run.translate(LINES, beam_size=1)
    assert len(below(wide, narrow)) <= 1


def test_config_files_of_before_are_read(run, trained, tmp_path):
    said = json.loads((trained[0] / "config.json").read_text())
    for name in ("method", "shrink", "coverage", "min_ratio", "temperature"):
        del said["decoding"][name]
    assert bj.Config.from_json(json.dumps(said)) == run.config
