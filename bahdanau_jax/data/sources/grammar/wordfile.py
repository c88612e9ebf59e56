"""Reads the sections and entries of a file of words for the built-in corpus.

    # comment
    [noun thing place]        a section: the type of its entries, and their kinds
    lamp = lampe f            an entry: English = French

`SECTIONS` has every section; docs/grammar.md explains them. Errors show the file and the line.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from bahdanau_jax.names import choose

KINDS = ("person", "body", "measure", "domain", "thing", "place")
AGENTS = ("person", "body")  # kinds that act
TENSES = ("present", "past", "future")


class Section(NamedTuple):
    example: str  # one of its entries
    kinds: tuple[str, ...] = ()  # the header names one or more of these


class Entry(NamedTuple):
    place: str  # FILE:LINE
    section: str
    kind: str  # one of the section's kinds; empty if it has none
    english: str
    french: str

    def expected(self, what: str) -> ValueError:
        """An error for this entry; `what` is the text about the expected form."""
        return ValueError(
            f"{self.place}: {what}; [{self.section}] has entries such as "
            f'"{SECTIONS[self.section].example}", '
            f'not "{self.english} = {self.french}"'
        )


SECTIONS: Mapping[str, Section] = MappingProxyType(
    {
        "noun": Section("city/cities = ville/villes f", KINDS),
        "adjective": Section("useful = utile", KINDS),
        "adjective before": Section("beautiful = beau/belle/bel", KINDS),
        "relation": Section("European = européen/européenne", KINDS),
        "modifier": Section("climate = climatique"),
        "modifier de": Section("energy = ~de ~la énergie"),
        "name person": Section("Peter = Pierre m"),
        "name institution": Section("Security/1 Council/2 = Conseil/2 ~de/1 sécurité/1 m"),
        "name country": Section("Spain = Espagne f"),
        "name city": Section("London = Londres"),
        "verb": Section("see/saw/seen = voir", KINDS),
        "verb alone": Section("come/came = venir être", AGENTS),
        "verb giving": Section("give/gave = donner"),
        "verb saying": Section("say/said = dire"),
        "verb wanting": Section("want = vouloir"),
        "forms": Section("voir = vois voyons voyez voit voient verr vu"),
        "adverb": Section("often = souvent"),
        "time": Section("last/1 year/2 = ~la/2 année/2 dernière/1", TENSES),
        "preposition": Section("against = contre", ("person", "body", "domain", "place")),
        "sentence": Section("it/1 is/2 about/3 {measure} = il ~se agit/2 de/3 {measure}"),
    }
)


def entries(path: Path) -> Iterator[Entry]:
    """Yield the entries of a file of words in its order, once for each kind of their section.

    Raises FileNotFoundError, or a ValueError with the file, the line and the expected form.
    """
    section, kinds = "", ("",)
    for number, line in enumerate(_text(path).split("\n"), start=1):
        place = f"{path}:{number}"
        line = line.partition("#")[0].strip()
        if line.startswith("["):
            section, kinds = _header(line, place)
        elif line:
            if not section:
                raise ValueError(
                    f'{place}: an entry needs a section before it, such as "[noun thing]"'
                )
            english, equals, french = (part.strip() for part in line.partition("="))
            entry = Entry(place, section, "", english, french)
            if not (english and equals and french):
                raise entry.expected("an entry has English and French with = between them")
            yield from (entry._replace(kind=kind) for kind in kinds)


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise type(error)(f"no file of words {path}: {error.strerror}") from error
    try:
        return unicodedata.normalize("NFC", data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}:{line}: not valid UTF-8") from error


def _header(line: str, place: str) -> tuple[str, tuple[str, ...]]:
    """(section, kinds) of a header such as "[adjective before person thing]"."""
    said = line.removeprefix("[").removesuffix("]").split()
    known = (" ".join(said[:n]) for n in (2, 1))  # longer names first
    section = next((name for name in known if name in SECTIONS), "".join(said[:1]))
    try:
        possible = choose(SECTIONS, section, "section").kinds
        kinds = said[len(section.split()) :]
        for kind in kinds if possible else ():
            choose(dict.fromkeys(possible), kind, f"kind of [{section}]")
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error
    if not line.endswith("]") or bool(kinds) != bool(possible):
        kinds_too = f"; kinds: {', '.join(possible)}" if possible else ""
        header = " ".join((section, *possible[:1]))
        raise ValueError(
            f'{place}: a header such as "[{header}]" was expected, not "{line}"{kinds_too}'
        )
    return section, tuple(kinds) or ("",)


_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_ITEM = re.compile(r"~?\*?(?:[^\W_]+(?:-[^\W_]+)*'?|,|'s)(?:/[1-8])?")
_SLOT = re.compile(r"\{(\w+?)(\d?)\}")


def forms(text: str, most: int, entry: Entry) -> tuple[list[str], bool]:
    """The forms of "city/cities", and whether a star marks them as misleading."""
    words = text.removeprefix("*").split("/")
    if len(words) > most or not all(map(_WORD.fullmatch, words)):
        many = "a word" if most == 1 else f"a word, or up to {most} forms with / between them,"
        raise entry.expected(f'{many} was expected, not "{text}"')
    return words, text.startswith("*")


def template(text: str, entry: Entry) -> list[str]:
    """The items of a template such as "~la/2 année/2 dernière/1"."""
    items = text.split()
    for item in items:
        if not _ITEM.fullmatch(item):
            raise entry.expected(
                f'a word with its number, such as "year/2", was expected: "{item}"'
            )
    return items


def slot(item: str) -> str:
    """The kind of phrase for a slot, such as "{measure}" or "{measure2}"; empty for a word."""
    match = _SLOT.fullmatch(item)
    return match[1] if match else ""
