"""Links in files: the Pharaoh format, and that of the HLT-NAACL 2003 shared task (.wa).

    0-0 1?2 3-1                 Pharaoh: a line a sentence; `-` sure, `?` only possible; from 0
    18 3 4 P                    .wa: a line a link; sentence, words of both sides, S or P; from 1

Errors name file and line.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import NamedTuple

from bahdanau_jax.alignment.linking import Link, Links


class Gold(NamedTuple):
    """The links that annotators gave a sentence."""

    sure: Links
    possible: Links  # the sure ones among them


class Marked(NamedTuple):
    """What a file says of a link."""

    sure: bool
    line: int


def format_pharaoh(sure: AbstractSet[Link], possible: AbstractSet[Link] = frozenset()) -> str:
    """One sentence's links, sorted: "source-target", or "source?target" for one only possible.

    >>> format_pharaoh({(2, 1), (0, 0)}, possible={(1, 1)})
    '0-0 1?1 2-1'
    """
    marks = sorted({**dict.fromkeys(possible, "?"), **dict.fromkeys(sure, "-")}.items())
    return " ".join(f"{source}{mark}{target}" for (source, target), mark in marks)


def read_pharaoh(lines: Iterable[str], name: str = "") -> list[Links]:
    """One set of links a line, each `source-target`; an empty line has none.

    `name` is the file's, for the message. Raises ValueError with the line's number.
    """
    return [frozenset(found) for found in _pharaoh(lines, name, "-")]


def read_gold(lines: Iterable[str], name: str = "") -> list[Gold]:
    """The same with `source?target` for links that are only possible."""
    return [_gold(found) for found in _pharaoh(lines, name, "-?")]


def read_wa(lines: Iterable[str], name: str = "") -> dict[int, Gold]:
    """Sentence, from 0 -> its links, from 0; sentences that the file does not name have none."""
    return {sentence: _gold(found) for sentence, found in _wa(lines, name).items()}


class GoldFile(NamedTuple):
    """Gold links of a text, in either format, by sentence from 0."""

    name: str
    marked: Mapping[int, Mapping[Link, Marked]]
    sentences: int | None  # None where the format does not say

    def links(self, sentence: int, source_length: int, target_length: int) -> Gold:
        """Of one sentence. Raises ValueError for a link outside it, with its line."""
        found = self.marked.get(sentence, {})
        for (source, target), mark in found.items():
            if source >= source_length or target >= target_length:
                raise ValueError(
                    f"{self.name}:{mark.line}: the link from source word {source + 1} to target "
                    f"word {target + 1} lies outside sentence {sentence + 1}, which has "
                    f"{source_length} and {target_length} words (is the other side the source? "
                    "are these the words that the links count?)"
                )
        return _gold(found)

    def check(self, sentences: int) -> None:
        """Raises ValueError where the links are of another number of sentences."""
        if self.sentences is not None and self.sentences != sentences:
            raise ValueError(
                f"{self.name} has links of {self.sentences} sentences, but the text has {sentences}"
            )
        for sentence in self.marked:
            if sentence >= sentences:
                line = next(iter(self.marked[sentence].values())).line
                raise ValueError(
                    f"{self.name}:{line}: sentence {sentence + 1}, but the text has {sentences}"
                )


def read(lines: Sequence[str], name: str, transpose: bool = False) -> GoldFile:
    """Links in the format that the first of them has. `transpose`: the target comes first."""
    kind = _format(lines, name)
    marked, sentences = FORMATS[kind](lines, name)
    if transpose:
        marked = {
            sentence: {(target, source): mark for (source, target), mark in found.items()}
            for sentence, found in marked.items()
        }
    return GoldFile(name, marked, sentences)


def _format(lines: Iterable[str], name: str) -> str:
    first = next((words for line in lines if (words := line.split())), [])
    if not first:
        raise ValueError(f"{name} has no link")
    return "pharaoh" if not first[0].isdecimal() else "wa"


def _gold(found: Mapping[Link, Marked]) -> Gold:
    return Gold(frozenset(link for link, mark in found.items() if mark.sure), frozenset(found))


_PHARAOH_LINK = re.compile(r"(\d+)([-?])(\d+)", re.ASCII)


def _pharaoh(lines: Iterable[str], name: str, marks: str) -> Iterator[dict[Link, Marked]]:
    for number, line in enumerate(lines, start=1):
        found = {}
        for item in line.split():
            match = _PHARAOH_LINK.fullmatch(item)
            if not match or match[2] not in marks:
                forms = " or ".join(f"0{mark}1" for mark in marks)
                raise ValueError(
                    f"{_where(name, number)}: a link reads source-target, such as {forms}, "
                    f"not {item!r}"
                )
            _mark(found, (int(match[1]), int(match[3])), match[2] == "-", number)
        yield found


_WA_LINK = re.compile(r"(\d+)\s+(\d+)\s+(\d+)(?:\s+([SP]))?(?:\s+[\d.]+)?", re.ASCII)


def _wa(lines: Iterable[str], name: str) -> dict[int, dict[Link, Marked]]:
    """A link without S or P is sure; a confidence after it says nothing here; 0 is NULL."""
    sentences: dict[int, dict[Link, Marked]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        match = _WA_LINK.fullmatch(line.strip())
        if not match or not int(match[1]):
            raise ValueError(
                f"{_where(name, number)}: a link reads sentence, source word, target word and S or "
                f"P, counted from 1, such as 1 2 3 S, not {line.strip()!r}"
            )
        sentence, source, target = (int(match[i]) - 1 for i in (1, 2, 3))
        found = sentences.setdefault(sentence, {})
        if source >= 0 and target >= 0:
            _mark(found, (source, target), match[4] != "P", number)
    return {sentence: found for sentence, found in sentences.items() if found}


def _mark(found: dict[Link, Marked], link: Link, sure: bool, line: int) -> None:
    """A link that stands twice is sure if it is so once."""
    before = found.get(link)
    found[link] = Marked(sure or bool(before and before.sure), before.line if before else line)


def _where(name: str, number: int) -> str:
    return f"{name}:{number}" if name else f"line {number}"


def _read_pharaoh(lines: Sequence[str], name: str):
    found = list(_pharaoh(lines, name, "-?"))
    return dict(enumerate(found)), len(found)


def _read_wa(lines: Sequence[str], name: str):
    return _wa(lines, name), None


# Name of a format -> (links by sentence, how many sentences the file says there are).
FORMATS: Mapping[
    str, Callable[[Sequence[str], str], tuple[dict[int, dict[Link, Marked]], int | None]]
] = MappingProxyType({"pharaoh": _read_pharaoh, "wa": _read_wa})
