"""Names of tables, and suggestions for misspelt ones."""

import pytest

from bahdanau_jax.names import choose, did_you_mean, nearest


def test_a_value_by_its_name():
    assert choose({"moses": 1}, "moses", "data.tokenizer") == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mose", "no data.tokenizer 'mose'; known: moses, none (did you mean 'moses'?)"),
        ("xyz", "no data.tokenizer 'xyz'; known: moses, none"),
    ],
)
def test_an_unknown_name(name, message):
    with pytest.raises(ValueError) as raised:
        choose({"none": 2, "moses": 1}, name, "data.tokenizer")
    assert str(raised.value) == message


def test_suggestions():
    assert nearest("trian", ["translate", "train"]) == ["train"]
    assert nearest("x", ["train"]) == []
    assert did_you_mean("trian", ["translate", "train"]) == "did you mean train?"
    assert did_you_mean("trian", ["train"], quote=True) == "did you mean 'train'?"
    assert did_you_mean("x", ["train"], "see --help") == "see --help"
    both = did_you_mean("x", ["a", "b"], find=lambda name, known: known)
    assert both == "did you mean a or b?"
