"""Files of words for the built-in corpus: sections of entries, and errors that name the line.

    # comment
    [noun thing place]        a section: what its entries are, and of which kinds
    lamp = lampe f            an entry: English = French

`SECTIONS` has every section; docs/grammar.md says what they are for.
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
    example: str  # an entry of it
    kinds: tuple[str, ...] = ()  # its header names one or more of them


class Entry(NamedTuple):
    place: str  # FILE:LINE
    section: str
    kind: str  # one of the section's kinds; empty where it has none
    english: str
    french: str

    def expected(self, what: str) -> ValueError:
        """The error of an entry that should have been `what`."""
        return ValueError(
            f'{self.place}: {what}; [{self.section}] reads "{SECTIONS[self.section].example}", '
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
    """The entries of a file of words in its order; one a kind where a section names several.

    Raises FileNotFoundError, or a ValueError that says file, line and what was expected.
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
            found = Entry(place, section, "", english, french)
            if not (english and equals and french):
                raise found.expected("an entry has English and French with = between them")
            yield from (found._replace(kind=kind) for kind in kinds)


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
    """(section, its kinds) of "[adjective before person thing]"."""
    said = line.removeprefix("[").removesuffix("]").split()
    known = (" ".join(said[:n]) for n in (2, 1))  # the longest name wins
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
    """The forms of "city/cities", and whether a star before them says they mislead."""
    found = text.removeprefix("*").split("/")
    if len(found) > most or not all(_WORD.fullmatch(form) for form in found):
        many = "a word" if most == 1 else f"a word, or up to {most} forms with / between them,"
        raise entry.expected(f'{many} was expected, not "{text}"')
    return found, text.startswith("*")


def template(text: str, entry: Entry) -> list[str]:
    """The items of "~la/2 année/2 dernière/1", each of them a word."""
    items = text.split()
    for item in items:
        if not _ITEM.fullmatch(item):
            raise entry.expected(
                f'a word with its number, such as "year/2", was expected: "{item}"'
            )
    return items


def slot(item: str) -> str:
    """The kind of phrase that "{measure}" or "{measure2}" stands for; empty for a word."""
    match = _SLOT.fullmatch(item)
    return match[1] if match else ""
