"""`bahdanau align` with a trained run: links, weights, error rates and a lexicon."""

import json
import re
import shutil

import numpy as np
import pytest

import bahdanau_jax as bj
from bahdanau_jax import alignment, data
from bahdanau_jax.alignment import format_pharaoh
from bahdanau_jax.config import DataConfig
from bahdanau_jax.report import aligned_corpus

LINES = 12


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The test pairs of the trained run: test.en, test.fr and their links in both formats."""
    folder = tmp_path_factory.mktemp("corpus")
    pairs = list(data.aligned_pairs(f"builtin:en-fr/test?pairs={LINES}&max=6", DataConfig()))
    (folder / "test.en").write_text("".join(" ".join(p.source) + "\n" for p in pairs))
    (folder / "test.fr").write_text("".join(" ".join(p.target) + "\n" for p in pairs))
    gold = [format_pharaoh(p.sure, p.possible) + "\n" for p in pairs]
    (folder / "test.pharaoh").write_text("".join(gold))
    wa = [
        f"{n} {j + 1} {i + 1} {'S' if (i, j) in p.sure else 'P'}\n"
        for n, p in enumerate(pairs, start=1)
        for i, j in sorted(p.sure | p.possible)
    ]
    (folder / "french-english.wa").write_text("".join(wa))
    return folder, pairs


def read_pharaoh(lines):
    """The links of each line, all of them sure."""
    return [frozenset(tuple(map(int, link.split("-"))) for link in line.split()) for line in lines]


@pytest.fixture
def align(trained, corpus, command_line):
    def run(*arguments, source="test.en", target="test.fr"):
        files = "--source", corpus[0] / source, "--target", corpus[0] / target, "--tokenized", True
        return command_line("align", "--run", trained[0], *files, *arguments)

    return run


@pytest.mark.slow
def test_a_run_is_a_folder_or_one_of_its_checkpoints(trained, corpus, command_line):
    folder, pairs = corpus
    files = "--source", folder / "test.en", "--target", folder / "test.fr", "--format", "jsonl"
    first, *_, last = sorted(int(path.name) for path in (trained[0] / "checkpoints").iterdir())
    found = {}
    for step in (first, last):
        code, out, err = command_line("align", "--run", f"{trained[0]}@{step}", *files)
        assert (code, err) == (0, "")
        found[step] = [json.loads(line)["score"] for line in out.splitlines()]
        run = bj.load(trained[0], checkpoint=str(step))
        texts = ([" ".join(getattr(p, side)) for p in pairs] for side in ("source", "target"))
        expected = [pair.score for pair in run.align(*texts)]
        np.testing.assert_allclose(found[step], expected, rtol=1e-5)
    assert not np.allclose(found[first], found[last], rtol=1e-2)
    code, out, err = command_line("align", "--run", f"{trained[0]}@7777", *files)
    assert (code, out, err.count("\n")) == (2, "", 1) and "7777" in err


def test_links_of_every_line_and_their_error_rate(align, corpus):
    folder, pairs = corpus
    code, out, err = align("--gold", folder / "test.pharaoh")
    assert code == 0, err
    links = read_pharaoh(out.splitlines())
    sure, possible = [p.sure for p in pairs], [p.possible for p in pairs]
    expected = alignment.alignment_scores(links, sure, possible)
    diagonal = [alignment.diagonal(len(p.source), len(p.target)) for p in pairs]
    for shown in (
        f"AER {expected.aer:.3f}",
        f"precision {expected.precision:.3f}",
        f"recall {expected.recall:.3f}",
    ):
        assert shown in err.splitlines()
    baseline = alignment.aer(diagonal, sure, possible)
    assert f"diagonal AER {baseline:.3f}" in [" ".join(line.split()) for line in err.splitlines()]
    assert all(
        len({t for _, t in found}) == len(p.target) for found, p in zip(links, pairs, strict=True)
    )


def test_the_report_of_the_run_agrees(align, corpus, trained):
    folder, _ = corpus
    scores = json.loads((trained[0] / "report" / "scores.json").read_text())
    code, out, _ = align("--gold", folder / "test.pharaoh", "--output", folder / "links")
    assert code == 0
    table = json.loads(out)
    assert table["sentences"] == LINES and table["left_out"] == 0
    assert table["AER"] == pytest.approx(scores["AER"])
    assert table["ways"]["diagonal"]["AER"] == pytest.approx(scores["AER-diagonal"])
    assert 0 < table["entropy"] < np.log(8) and 0 < table["coverage"] <= 1


def test_both_formats_of_gold_links_score_alike(align, corpus):
    folder, _ = corpus
    wa = "--gold", folder / "french-english.wa", "--gold-transposed", True
    first, second = (align(*gold)[2] for gold in (wa, ("--gold", folder / "test.pharaoh")))
    assert first == second


def test_sentences_without_gold_links_are_counted_and_told(align, corpus):
    folder, pairs = corpus
    lines = (folder / "french-english.wa").read_text().splitlines(keepends=True)
    (folder / "half.wa").write_text("".join(x for x in lines if int(x.split()[0]) <= LINES // 2))
    _, out, err = align(
        "--gold", folder / "half.wa", "--gold-transposed", True, "--output", folder / "half"
    )
    assert json.loads(out)["without_gold"] == LINES - LINES // 2
    assert f"has no links for {LINES - LINES // 2} of {LINES} sentences; all" in err


def test_jsonl_has_words_links_and_weights(align, corpus):
    _, pairs = corpus
    code, out, err = align("--format", "jsonl")
    assert code == 0, err
    plain = align()[1].splitlines()
    for n, (line, pair) in enumerate(zip(out.splitlines(), pairs, strict=True)):
        found = json.loads(line)
        alpha = np.array(found["alpha"])
        assert found["index"] == n and found["links"] == plain[n]
        assert tuple(found["source"]) == pair.source and tuple(found["target"]) == pair.target
        assert alpha.shape == (len(pair.target) + 1, len(pair.source) + 1)
        np.testing.assert_allclose(alpha.sum(axis=1), 1, atol=1e-4)
        np.testing.assert_allclose(found["coverage"], alpha[:-1, :-1].sum(axis=0), atol=1e-4)
        assert len(found["entropy"]) == len(pair.target) and found["score"] < 0


def test_two_directions_are_symmetrised(align, corpus, trained, command_line, tmp_path):
    # A stand-in for a model of the other direction: the same weights, languages exchanged.
    folder, _ = corpus
    other = tmp_path / "other"
    shutil.copytree(trained[0], other)
    for path in (other / "config.json", other / "vocabulary" / "settings.json"):
        text = path.read_text()
        text = text.replace('"source_language": "en"', '"source_language": "fr"')
        path.write_text(text.replace('"target_language": "fr"', '"target_language": "en"'))
    turned = "--source", folder / "test.fr", "--target", folder / "test.en", "--tokenized", True
    back = command_line("align", "--run", other, *turned)
    assert back[0] == 0, back[2]
    forward, backward = (read_pharaoh(out.splitlines()) for out in (align()[1], back[1]))
    for name, join in alignment.SYMMETRIZATIONS.items():
        code, out, err = align(
            "--reverse-run", other, "--symmetrize", name, "--gold", folder / "test.pharaoh"
        )
        assert code == 0, err
        expected = [
            join(f, alignment.transposed(b)) for f, b in zip(forward, backward, strict=True)
        ]
        assert read_pharaoh(out.splitlines()) == expected
    shown = [line.split()[0] for line in err.splitlines() if " AER " in line]
    assert shown == ["forward", "backward", *alignment.SYMMETRIZATIONS, "diagonal"]


def test_dice_is_scored_beside(align, corpus):
    folder, pairs = corpus
    address = "builtin:en-fr/train?pairs=400&max=6"
    code, out, err = align(
        "--gold", folder / "test.pharaoh", "--dice", address, "--output", folder / "links"
    )
    assert code == 0, err
    ways = json.loads(out)["ways"]
    assert ways["dice"]["AER"] < ways["diagonal"]["AER"]
    read, training = (
        [(pair.source, pair.target) for pair in each]
        for each in (pairs, data.aligned_pairs(address, DataConfig()))
    )
    counted = alignment.Dice(read, training)
    scores = [counted.scores(*pair) for pair in read]
    links = [alignment.strongest(each) for each in scores]
    sure, possible = [p.sure for p in pairs], [p.possible for p in pairs]
    assert ways["dice"]["AER"] == pytest.approx(alignment.aer(links, sure, possible), abs=1e-6)
    weights = [json.loads(line)["alpha"] for line in align("--format", "jsonl")[1].splitlines()]
    joint = []  # links by the weights times a power of the coefficients
    for power in (0.1, 80):
        joint.append(read_pharaoh(align("--dice", address, "--dice-power", power)[1].splitlines()))
        for alpha, prior, found in zip(weights, scores, joint[-1], strict=True):
            product = np.array(alpha)[:-1, :-1] * prior**power
            best = zip(product.argmax(axis=1), product.any(axis=1), strict=True)
            assert found == {(int(source), i) for i, (source, some) in enumerate(best) if some}
    assert joint[0] != joint[1]


def test_a_pair_that_is_left_out_has_no_dice_links(align, corpus):
    folder, _ = corpus
    # A word without a token: the rules of Moses remove the control character.
    for name, text in (("odd.en", "man\n"), ("odd.fr", "\x01\n"), ("odd.pharaoh", "0-0\n")):
        (folder / name).write_text(text)
    arguments = "--gold", folder / "odd.pharaoh", "--dice", "builtin:en-fr/train?pairs=9&max=6"
    plain = "--tokenized", False, "--output", folder / "links"
    _, out, _ = align(*arguments, *plain, source="odd.en", target="odd.fr")
    assert json.loads(out)["left_out"] == 1
    assert json.loads(out)["ways"]["dice"]["recall"] == 0


def test_shares_are_linked_when_asked_for(align):
    weights = [json.loads(line) for line in align("--format", "jsonl")[1].splitlines()]
    shares = read_pharaoh(align("--weights", "share")[1].splitlines())
    for found, links in zip(weights, shares, strict=True):
        alpha = np.array(found["alpha"])[:-1, :-1]
        best = (alpha / alpha.sum(axis=0)).argmax(axis=1)
        assert links == {(int(source), target) for target, source in enumerate(best)}


@pytest.mark.slow
def test_a_lexicon_of_what_is_linked_serves_translate(align, trained, command_line, tmp_path):
    lexicon = tmp_path / "lexicon.tsv"
    code, _, err = align("--lexicon-output", lexicon, "--lexicon-least", 1)
    assert code == 0, err
    entries = [line.split("\t") for line in lexicon.read_text().splitlines()]
    assert entries == sorted(entries) and all(len(entry) == 2 for entry in entries)
    word, translation = next(entry for entry in entries if entry[0] != entry[1])
    source, prefix = tmp_path / "in", tmp_path / "prefix"
    source.write_text(f"{word} {word}\n\n")  # the attention of UNK is largest at this word
    prefix.write_text("<unk>\n\n")
    code, out, err = command_line(
        "translate", "--run", trained[0], "--input", source, "--prefix", prefix,
        "--replace-unk", True, "--lexicon", lexicon, "--format", "jsonl",
    )  # fmt: skip
    assert code == 0, err
    best, blank = (json.loads(line) for line in out.splitlines())
    assert best["tokens"][0] == "<unk>" and best["original"].startswith("<unk>")
    assert best["text"].startswith(translation) and blank["text"] == ""


def test_one_line_out_for_one_line_in(align, corpus):
    folder, _ = corpus
    sources = ["The man sleeps .", "", "x " * 700, "\u2028\r", "a\x00b", "\ud7ff"]
    (folder / "hostile.en").write_text("\n".join(sources) + "\n")
    (folder / "hostile.fr").write_text("L' homme dort .\nrien\nun\nun\n\x01\nun")
    code, out, err = align(source="hostile.en", target="hostile.fr")
    assert code == 0, err
    lines = out.split("\n")
    assert len(lines) == 7 and lines[0] and lines[1] == lines[2] == lines[3] == ""
    assert (
        "1 pairs have no links because a side has no token, or more than 500; the first is line 3"
        in err
    )
    code, out, _ = align("--format", "jsonl", source="hostile.en", target="hostile.fr")
    assert len(out.splitlines()) == 6 and json.loads(out.splitlines()[1])["links"] == ""


def test_a_word_of_control_characters_has_no_token(trained, command_line, tmp_path):
    (tmp_path / "a.en").write_text("a\n")
    (tmp_path / "a.fr").write_text("\x01\n")
    files = "--source", tmp_path / "a.en", "--target", tmp_path / "a.fr"
    code, out, err = command_line("align", "--run", trained[0], *files)
    assert (code, out) == (0, "\n")
    assert "a side has no token, or more than 500; the first is line 1" in err


def test_empty_files_have_no_links(align, corpus):
    (corpus[0] / "empty").write_text("")
    assert align(source="empty", target="empty") == (0, "", "")


BAD = {
    "unequal files": (("--target", "short"), "test.en has more lines than .*short, which has 3;"),
    "unequal the other way": (("--source", "short"), "test.fr has more lines than .*short"),
    "no file": (("--source", "none"), "none: no such file \\(--source\\)"),
    "no gold": (("--gold", "none"), "none: no such file \\(--gold\\)"),
    "gold of other sentences": (("--gold", "few"), "few has links of 2 sentences, .* has 12"),
    "gold outside": (("--gold", "outside"), "outside:2: the link from source word 41 to target"),
    "gold that is none": (("--gold", "short"), "short:1: a link reads source-target"),
    "threshold": (("--threshold", "0"), "--threshold is 0.0, but should be above 0"),
    "least": (("--lexicon-least", "0"), "--lexicon-least is 0"),
    "no level": (("--level", "words"), "no --level 'words'; known: .*did you mean 'word'"),
    "tokens of the Hansards": (
        ("--level", "hansards"),
        "--level hansards reads .* leave out --tokenized",
    ),
    "dice for nothing": (
        ("--dice", "builtin:en-fr/train"),
        "--dice needs --dice-power .* or --gold",
    ),
    "a power of nothing": (("--dice-power", "1"), "--dice-power needs --dice, which is missing"),
    "a lexicon in no folder": (
        ("--lexicon-output", "nowhere/lexicon.tsv"),
        "nowhere/lexicon.tsv: the folder does not exist",
    ),
    "both outputs in one file": (
        ("--output", "links", "--lexicon-output", "./links"),
        "--output and --lexicon-output are both links: name two files",
    ),
    "the links over their gold": (
        ("--gold", "test.pharaoh", "--output", "./test.pharaoh"),
        "--output would replace .*test.pharaoh, the file of --gold: name another",
    ),
    "power": (("--dice-power", "nan", "--dice", "x"), "--dice-power is nan"),
    "dice of text that cannot be read twice": (
        ("--source", "/dev/null", "--target", "/dev/null", "--dice", "x", "--dice-power", "1"),
        "/dev/null is no regular file, but with --dice, --source is read twice",
    ),
    "transposed": (("--gold-transposed", "True"), "needs --gold"),
    "symmetrised alone": (
        ("--symmetrize", "union"),
        "--symmetrize needs --reverse-run, which",
    ),
    "a lexicon nowhere": (
        ("--lexicon-least", "5"),
        "--lexicon-least needs --lexicon-output",
    ),
    "a lexicon of pieces": (
        ("--lexicon-output", "lexicon.tsv", "--level", "piece"),
        "--lexicon-output needs words as they are written: choose --level token",
    ),
    "a threshold and EOS": (
        ("--threshold", "0.5", "--eos", "none"),
        "--eos applies only without --threshold",
    ),
    "dice of nothing": (("--gold", "test.pharaoh", "--dice", "nowhere:x"), "nowhere"),
    "no run": (("--run", "."), "holds no run"),
    "twice the same direction": (("--reverse-run", "RUN"), "has to be of the opposite direction"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_a_user_can_mend_is_one_line(case, align, corpus, trained, monkeypatch):
    folder, _ = corpus
    (folder / "short").write_text("un\ndeux\ntrois\n")
    (folder / "few").write_text("0-0\n0-0\n")
    (folder / "outside").write_text("0-0\n40-0\n" + "0-0\n" * 10)
    monkeypatch.chdir(folder)
    arguments, message = BAD[case]
    code, _, err = align(*(str(trained[0]) if a == "RUN" else a for a in arguments))
    assert code == 2
    assert len(err.splitlines()) == 1
    assert re.search(message, err), err


def test_gold_links_of_other_sentences_are_refused_before_the_alignment(align, corpus, monkeypatch):
    (corpus[0] / "few").write_text("0-0\n0-0\n")
    monkeypatch.setattr(aligned_corpus, "align", None)
    code, out, err = align("--gold", corpus[0] / "few")
    assert (code, out) == (2, "")
    assert "few has links of 2 sentences, but the text has 12" in err


def test_links_of_the_posterior_in_both_directions(align, corpus, trained):
    """The links equal those in Python, and are symmetrised as those of attention are."""
    folder, pairs = corpus
    code, out, err = align("--weights", "posterior,share", "--format", "jsonl")
    assert code == 0, err
    run = aligned_corpus.of_tokens(bj.load(trained[0]))
    text = [[" ".join(getattr(p, side)) for p in pairs] for side in ("source", "target")]
    expected = run.align(*text, weights="posterior")
    for line, pair in zip(out.splitlines(), expected, strict=True):
        found = json.loads(line)
        assert found["links"] == format_pharaoh(pair.links("posterior,share"))
        np.testing.assert_allclose(found["posterior"], pair.others["posterior"], atol=1e-5)
        np.testing.assert_allclose(found["alpha"], pair.alpha, atol=1e-5)


@pytest.mark.parametrize(
    "weights, complaint",
    [
        (
            "shift",
            "of order groundhog or luong or conditional, but this one has order paper",
        ),
        ("posterior,nothing", "no weights of links 'nothing'; known: attention, posterior, "),
        ("posterior,saliency", "are of two kinds, posterior and saliency"),
    ],
)
def test_weights_that_the_model_does_not_have_are_refused(align, weights, complaint):
    code, out, err = align("--weights", weights)
    assert (code, out) == (2, "") and err.count("\n") == 1 and complaint in err
