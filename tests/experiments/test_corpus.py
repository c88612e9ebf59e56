import pytest

from bahdanau_jax.experiments import corpus

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
    "steps": 13,
    "shapes": [(2, 8), (21, 10)],
    "padding": 0.1234,
}


def rows(statistics, folder):
    """The table as {first cell: the others}."""
    table = [line.split("  ") for line in corpus.write(statistics, folder).splitlines()]
    return {name: [cell.strip() for cell in cells if cell.strip()] for name, *cells in table}


def test_every_count_is_told(tmp_path):
    found = rows(STATISTICS, tmp_path)
    assert found["pairs read"] == ["1,005"]
    assert found["dropped, with an empty side"] == ["2"]
    assert found["dropped, above data.max_tokens"] == ["3"]
    assert not any("max_ratio" in name or "before" in name for name in found)
    assert found["kept of corpus 2"] == ["400"]
    assert found["different ones (types)"] == ["1,500", "2,000"]
    assert found["covered by the vocabulary"] == ["99.00%", "97.50%"]
    assert found["unknown (UNK)"] == ["1.00%", "2.50%"]
    assert found["tokens a sentence, mean"] == ["6.7", "6.0"]
    assert found["tokens a sentence, median"] == ["1", "5"]
    assert found["tokens a sentence, longest"] == ["20", "9"]
    assert found["padded shapes, source by target"] == ["2×8, 21×10"]
    assert found["padding in an epoch's batches"] == ["12.3%"]
    assert {path.name for path in (tmp_path / "report").iterdir()} == {"lengths.png", "lengths.svg"}


def test_types_are_left_out_where_they_were_not_counted(tmp_path):
    unknown = STATISTICS | {"types": {"source": None, "target": None}}
    assert "different ones (types)" not in rows(unknown, tmp_path)


@pytest.mark.parametrize("number", [0, 5])
def test_duplicates_are_told_where_there_are_some(tmp_path, number):
    changed = STATISTICS | {"dropped": {"duplicate": number}}
    assert ("dropped, there before" in rows(changed, tmp_path)) == (number > 0)
