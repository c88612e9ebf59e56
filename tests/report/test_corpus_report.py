import pytest

from bahdanau_jax import data
from bahdanau_jax.alignment import gold
from bahdanau_jax.config import DataConfig
from bahdanau_jax.report import corpus_report

STATISTICS = {
    "read": 1_005,
    "kept": 1_000,
    "dropped": {"empty": 2, "too_long": 3, "uneven": 0, "duplicate": 0},
    "corpora": [600, 400],
    "encodings": 1,
    "words": {"source": 10_000, "target": 11_000},
    "types": {"source": 1_500, "target": 2_000},
    "tokens": {"source": 10_000, "target": 11_000},
    "unknown": {"source": 100, "target": 275},
    "unk_rate": {"source": 0.01, "target": 0.025},
    "lengths": {"source": [[1, 700], [20, 300]], "target": [[5, 500], [7, 499], [9, 1]]},
    "vocabulary": {"source": 1_200, "target": 1_400},
    "epoch": {"pairs": 900, "tokens": {"source": 9_000, "target": 9_900}},
    "steps": 13,
    "shapes": [(2, 8), (21, 10)],
    "padding": 0.1234,
}


def rows(statistics, folder):
    """The table as {first cell: the others}."""
    table = [line.split("  ") for line in corpus_report.write(statistics, folder).splitlines()]
    return {name: [cell.strip() for cell in cells if cell.strip()] for name, *cells in table}


def test_every_count_is_told(tmp_path):
    found = rows(STATISTICS, tmp_path)
    assert found["pairs read"] == ["1,005"]
    assert found["dropped, with an empty side"] == ["2"]
    assert found["dropped, above data.max_tokens"] == ["3"]
    assert not any("max_ratio" in name or "before" in name for name in found)
    assert found["kept of corpus 2"] == ["400"]
    assert found["of all kept pairs"] == ["source", "target"]
    assert found["pairs an epoch"] == ["900"]
    assert found["tokens an epoch"] == ["9,000", "9,900"]
    assert found["different ones (types)"] == ["1,500", "2,000"]
    assert found["covered by the vocabulary"] == ["99.00%", "97.50%"]
    assert found["unknown (UNK)"] == ["1.00%", "2.50%"]
    assert found["tokens a sentence, mean"] == ["6.7", "6.0"]
    assert found["tokens a sentence, median"] == ["1", "5"]
    assert found["tokens a sentence, longest"] == ["20", "9"]
    assert found["padded shapes, source by target"] == ["2×8, 21×10"]
    assert found["padding in an epoch's batches"] == ["12.3%"]
    assert {path.name for path in (tmp_path / "report").iterdir()} == {"lengths.png", "lengths.svg"}


def test_counts_of_several_encodings_are_those_of_a_pair(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(corpus_report, "save", lambda *_: None)
    monkeypatch.setattr(corpus_report.figures, "lengths", drawn.append)
    found = rows(STATISTICS | {"encodings": 4}, tmp_path)
    assert found["encodings of each"] == ["4"]
    assert found["words, tokenised"] == ["10,000", "11,000"]
    assert found["tokens in it, mean of the encodings"] == ["2,500", "2,750"]
    assert found["tokens a sentence, mean"] == ["6.7", "6.0"]
    assert drawn[0]["source"] == [(1, 175), (20, 75)]


def test_types_are_left_out_where_they_were_not_counted(tmp_path):
    unknown = STATISTICS | {"types": {"source": None, "target": None}}
    assert "different ones (types)" not in rows(unknown, tmp_path)


@pytest.mark.parametrize("number", [0, 5])
def test_duplicates_are_told_where_there_are_some(tmp_path, number):
    changed = STATISTICS | {"dropped": {"duplicate": number}}
    assert ("dropped, duplicates" in rows(changed, tmp_path)) == (number > 0)


def test_export_of_a_corpus_with_gold_alignments(tmp_path):
    train = "builtin:en-fr/train?pairs=40; builtin:copy/train?pairs=3"
    config = DataConfig(train=train, dev="builtin:reverse/dev?pairs=5", test="")
    written = corpus_report.export(config, tmp_path / "new")
    kinds = ("en", "fr", "tokens.en", "tokens.fr", "pharaoh")
    names = [f"{split}.{kind}" for split in ("train", "dev") for kind in kinds]
    assert [path.name for path in written] == names
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(names)
    lines = [path.read_text("utf-8").splitlines() for path in written[:5]]
    assert [*zip(*lines[:2], strict=True)] == [*data.pairs(train, config)]  # ordinary text
    assert lines[1] != lines[3]  # such as "l'arbre" and "l' arbre"
    english, french, links = lines[2:]
    pairs = [pair for address in train.split("; ") for pair in data.aligned_pairs(address, config)]
    assert len(english) == len(french) == len(links) == len(pairs) == 43
    file = gold.read(links, "train.pharaoh")
    alignments = [file.links(n, len(pair.source), len(pair.target)) for n, pair in enumerate(pairs)]
    columns = zip(pairs, english, french, alignments, strict=True)
    for pair, source, target, (sure, possible) in columns:
        assert (tuple(source.split(" ")), tuple(target.split(" "))) == (pair.source, pair.target)
        assert (sure, possible) == (pair.sure, pair.possible | pair.sure)
    assert any(sure != possible for sure, possible in alignments)


def test_export_of_text(tmp_path):
    (tmp_path / "a.tsv").write_text("one \u2028 two\tun deux\n\ttrois\n", "utf-8")
    config = DataConfig(train="tsv:a.tsv", dev="", test="", root=str(tmp_path))
    written = corpus_report.export(config, tmp_path)
    assert [path.name for path in written] == ["train.en", "train.fr"]
    assert written[0].read_text("utf-8") == "one   two\n\n"
    assert written[1].read_text("utf-8") == "un deux\ntrois\n"


def test_a_language_twice_is_refused(tmp_path):
    config = DataConfig(train="builtin:copy/train?pairs=3", target_language="en")
    with pytest.raises(ValueError, match="are both en, and each needs a file of its own"):
        corpus_report.export(config, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_was_written_before_stays_where_export_fails(tmp_path):
    for name in ("train.en", "train.fr"):
        (tmp_path / name).write_text("old\n")
    (tmp_path / "a.tsv").write_text("one\tun\ntwo\n")
    config = DataConfig(train="tsv:a.tsv", dev="", test="", root=str(tmp_path))
    with pytest.raises(ValueError, match="a.tsv, line 2"):
        corpus_report.export(config, tmp_path)
    left = {path.name: path.read_text() for path in tmp_path.iterdir() if path.name != "a.tsv"}
    assert left == {"train.en": "old\n", "train.fr": "old\n"}


def test_links_of_other_sentences_are_not_removed(tmp_path):
    """Nothing says that they are of an earlier export."""
    (tmp_path / "dev.pharaoh").write_text("0-0\n")
    (tmp_path / "a.tsv").write_text("one\tun\n")
    config = DataConfig(train="tsv:a.tsv", dev="tsv:a.tsv", test="", root=str(tmp_path))
    with pytest.raises(ValueError, match=r"dev\.pharaoh is not of tsv:a\.tsv, which has no gold"):
        corpus_report.export(config, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"dev.pharaoh", "a.tsv"}


def test_a_corpus_is_not_replaced_by_its_export(tmp_path):
    for name, text in {"train.en": "one\n", "train.fr": "un\n", "more.tsv": "two\tdeux\n"}.items():
        (tmp_path / name).write_text(text)
    spec = "text:train.en,train.fr; tsv:more.tsv"
    config = DataConfig(train=spec, dev="", test="", root=str(tmp_path))
    with pytest.raises(
        ValueError, match=r"train\.en is text of a corpus: export to another folder"
    ):
        corpus_report.export(config, tmp_path)
    assert (tmp_path / "train.en").read_text() == "one\n"
    assert len(corpus_report.export(config, tmp_path / "new")) == 2


def test_links_of_an_earlier_export_are_named(tmp_path):
    corpus_report.export(DataConfig(train="builtin:copy/train?pairs=3", dev="", test=""), tmp_path)
    (tmp_path / "a.tsv").write_text("one\tun\n")
    config = DataConfig(train="tsv:a.tsv", dev="", test="", root=str(tmp_path))
    with pytest.raises(ValueError, match=r"train\.tokens\.en is not of tsv:a\.tsv"):
        corpus_report.export(config, tmp_path)
    assert len((tmp_path / "train.en").read_text().splitlines()) == 3
