"""Names of tables, and suggestions for misspelt ones."""

import math

import pytest

from bahdanau_jax.names import choose, did_you_mean, imported, is_code, nearest


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


def test_a_users_own_code():
    assert is_code("math:pi") and not is_code("additive")
    assert imported("math:pi", "model.attention") == math.pi


@pytest.mark.parametrize("name", [":score", "my_scores:"])
def test_a_name_without_a_module_or_an_attribute(name):
    with pytest.raises(ValueError, match=f"model.attention is '{name}'; expected module:attribute"):
        imported(name, "model.attention")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nb = a +\n", "SyntaxError: invalid syntax ({name}.py, line 2) ({file}:2)"),
        ("a = 1\n\nb = 1 / 0\n", "ZeroDivisionError: division by zero ({file}:3)"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 ({file}:2)"),
        ("a = 1\n", "AttributeError: module '{name}' has no attribute 'score'"),
        ("import json\n\njson.loads('{{')\n", "JSONDecodeError: Expecting property"),
    ],
)
def test_a_users_own_code_that_fails(text, message, tmp_path, monkeypatch, request):
    """The message is one line, and names the last line that was run in the user's file."""
    name = f"own_{request.node.callspec.indices['text']}"
    file = tmp_path / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError) as raised:
        imported(f"{name}:score", "model.attention")
    start = f"model.attention is '{name}:score', but "
    assert str(raised.value).startswith(start + message.format(name=name, file=file))
    assert "\n" not in str(raised.value)
    if "json" in text:
        assert str(raised.value).endswith(f"({file}:3)")
