"""UNK replacement on the command line."""

import types

import numpy as np
import pytest

from bahdanau_jax import data
from bahdanau_jax.cli.unk_options import UnkReplacer
from bahdanau_jax.config import DataConfig, DecodingConfig
from bahdanau_jax.data.tokens import codec
from bahdanau_jax.hypothesis import Hypothesis

CODECS = codec.learn(DataConfig(tokenizer="none"), [data.Pair("a b", "p q")])


def test_without_replacement_a_reference_gives_one_bleu(tmp_path, capsys):
    reference = tmp_path / "reference"
    reference.write_text("p q p q p <unk>\n")
    asked = types.SimpleNamespace(replace_unk=False, lexicon=None, reference=reference, input=None)
    replacer = UnkReplacer(asked, types.SimpleNamespace(codecs=CODECS))
    tokens = (*["p", "q", "p", "q", "p", "<unk>"], "</s>")
    look = np.full((7, 2), 0.5, np.float32)
    ranked = [[Hypothesis(" ".join(tokens[:-1]), tokens, (-1.0,) * 7, -7.0, True, ("x", ""), look)]]
    assert replacer(["x"], ranked) == ranked
    assert [kept.alpha.size for kept in replacer._best] == [0]  # those of all lines would add up
    replacer.report()
    said = dict(line.rsplit(" ", 1) for line in capsys.readouterr().err.splitlines())
    assert (said["sentences"], said["UNK"], said["sentences-with-UNK"]) == ("1", "1", "1")
    assert float(said["BLEU"]) < 100  # an unknown word is a wrong one, whatever stands there
    assert set(said) == {"sentences", "UNK", "sentences-with-UNK"} | {
        "BLEU",
        "BLEU-tokenized-lowercased",
    }


@pytest.mark.parametrize(("method", "left"), [("beam", ["p", "q"]), ("sample", ["p", "q", "p"])])
def test_texts_that_replacement_made_equal_come_once(method, left, tmp_path):
    def found(word, score):
        look = np.array([[1, 0], [0, 1]], np.float32)
        text = CODECS[1].write([word])
        return Hypothesis(text, (word, "</s>"), (-1.0, 0.0), score, True, ("x", "</s>"), look)

    lexicon = tmp_path / "lexicon"
    lexicon.write_text("x\tp\n")
    asked = types.SimpleNamespace(replace_unk=True, lexicon=lexicon, reference=None, input=None)
    asked.settings = DecodingConfig(method=method)
    replacer = UnkReplacer(asked, types.SimpleNamespace(codecs=CODECS))
    ((*ranked,),) = replacer(["x"], [[found("<unk>", -1.0), found("q", -2.0), found("p", -3.0)]])
    assert [each.text for each in ranked] == left
