"""Ordinary text from the Hansards' words, and the span of each word."""

import gzip
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.data.hansards import ordinary

SENTENCES = {
    # spelt out: ordinary
    "le heure de le an": "l'heure de l'an",
    "je ai vu que il ne est pas là": "j'ai vu qu'il n'est pas là",
    "ce est à le maire de le dire": "c'est au maire de le dire",
    "ce était vrai , ce a été dit , ce en est": "c'était vrai , ce a été dit , c'en est",
    "de les lois à les hommes": "des lois aux hommes",
    "De le pain": "Du pain",
    "il parle à le hôpital de le hôtel": "il parle à l'hôpital de l'hôtel",
    "le hameau de le héros , le huit": "le hameau du héros , le huit",
    "le onze et le oui": "le onze et le oui",
    "le héroïsme de le huissier": "l'héroïsme de l'huissier",
    "jusque ici , lorsque on se en va": "jusqu'ici , lorsqu'on s'en va",
    "si il pleut , si elle vient , si ils osent": "s'il pleut , si elle vient , s'ils osent",
    "quelque un , quelque une , quelque autre": "quelqu'un , quelqu'une , quelque autre",
    "il ne y a que elle": "il n'y a qu'elle",
    "le yaourt de Yves": "le yaourt d'Yves",
    "de les rendre , de les terres": "de les rendre , des terres",
    "avant de le premier ministre": "avant du premier ministre",
    "de le chanter à le chantier": "de le chanter au chantier",
    "permettez - moi , puis - je aller": "permettez-moi , puis-je aller",
    "C - 49 - et": "C-49-et",
    "- oui": "- oui",
    "aujourd' hui": "aujourd'hui",
    "de le": "du",
    "le": "le",
    "": "",
}


@pytest.mark.parametrize("spelt_out", SENTENCES)
def test_french_is_written_as_it_is_read(spelt_out):
    assert ordinary(spelt_out.split(), "fr")[0] == SENTENCES[spelt_out]


def test_words_of_a_contraction_share_a_place():
    text, spans = ordinary(["le", "été", "de", "le", "an", "à", "les", "deux"], "fr")
    assert text == "l'été de l'an aux deux"
    assert [text[a:b] for a, b in spans] == ["l'", "été", "de", "l'", "an", "aux", "aux", "deux"]


def test_english_only_loses_spaces_around_hyphens():
    text, spans = ordinary(["the", "cut", "-", "backs", "of", "le", "an", "-", "now"], "en")
    assert text == "the cut-backs of le an-now"
    assert [text[a:b] for a, b in spans] == [
        "the",
        "cut",
        "-",
        "backs",
        "of",
        "le",
        "an",
        "-",
        "now",
    ]


@given(
    st.lists(
        st.sampled_from(
            ["le", "de", "les", "à", "an", "-", ",", "pain", "ne", "est", "y", "d'", "que"]
        ),
        max_size=8,
    )
)
@pytest.mark.parametrize("language", ["en", "fr"])
def test_every_word_has_a_place_and_the_places_are_the_text(language, words):
    text, spans = ordinary(words, language)
    assert len(spans) == len(words) and spans == sorted(spans)
    assert " ".join(text.split()) == text
    covered = {i for a, b in spans for i in range(a, b)}
    assert covered == {i for i, c in enumerate(text) if c != " "}


def test_other_languages_are_refused():
    with pytest.raises(ValueError, match="not of language 'de': .* one of en, fr"):
        ordinary(["der"], "de")


LEFT = re.compile(r"\b(le|de|ne|je|se|que) [aeéio]|\b(de|à) les (?!rendre)")


def test_the_trial_sentences_have_no_spelt_out_form_left(data_root):

    with gzip.open(
        data_root / "hansards-alignment" / "trial.fr.gz", "rt", encoding="utf-8"
    ) as file:
        for line in file:
            text, spans = ordinary(line.split(), "fr")
            assert len(spans) == len(line.split())
            assert not LEFT.search(text), text
