"""Files of links in the Pharaoh format and in that of the HLT-NAACL 2003 shared task (.wa).

    0-0 1?2 3-1     Pharaoh: a line for each sentence; `-` sure, `?` possible; counted from 0
    18 3 4 P        .wa: a line for each link; sentence, words of both sides, S or P; from 1

Errors name the file and the line.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import NamedTuple

from bahdanau_jax.alignment.linking import Link, Links


class Gold(NamedTuple):
    """The annotated links of a sentence."""

    sure: Links  # links marked as sure
    possible: Links  # all links, the sure ones included


class Marked(NamedTuple):
    """The mark of a link in a file, and its line."""

    sure: bool  # whether the link is sure, not only possible
    line: int  # number of the line, from 1


def format_pharaoh(sure: AbstractSet[Link], possible: AbstractSet[Link] = frozenset()) -> str:
    """Format a sentence's links, sorted: "source-target", or "source?target" where only possible.

    >>> format_pharaoh({(2, 1), (0, 0)}, possible={(1, 1)})
    '0-0 1?1 2-1'
    """
    marks = sorted({**dict.fromkeys(possible, "?"), **dict.fromkeys(sure, "-")}.items())
    return " ".join(f"{source}{mark}{target}" for (source, target), mark in marks)


class GoldFile(NamedTuple):
    """The gold links of a text, by sentence; sentences and words count from 0."""

    name: str  # the path of the file
    marked: Mapping[int, Mapping[Link, Marked]]  # sentence -> link -> its mark
    sentences: int | None  # None for .wa, which does not tell it

    def links(self, sentence: int, source_length: int, target_length: int) -> Gold:
        """Return the links of one sentence. Raises ValueError with the line of a link outside."""
        links = self.marked.get(sentence, {})
        for (source, target), mark in links.items():
            if source >= source_length or target >= target_length:
                raise ValueError(
                    f"{self.name}:{mark.line}: the link from source word {source + 1} to target "
                    f"word {target + 1} lies outside sentence {sentence + 1}, which has "
                    f"{source_length} and {target_length} words (is the other side the source? "
                    "are these the words that the links count?)"
                )
        return Gold(frozenset(link for link, mark in links.items() if mark.sure), frozenset(links))

    def check(self, sentences: int) -> None:
        """Raise ValueError where the links belong to another number of sentences."""
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
    """Read links in the format of the first one. `transpose`: the file has the target first.

    Raises ValueError, with `name` and the line, for text that is no link, and where there is none.

    >>> read(["0-0 1?1"], "test.pharaoh").links(0, 2, 2).sure
    frozenset({(0, 0)})
    """
    first = next((words for line in lines if (words := line.split())), [])
    if not first:
        raise ValueError(f"{name} has no link")
    marked, sentences = FORMATS["wa" if first[0].isdecimal() else "pharaoh"](lines, name)
    if transpose:
        marked = {
            sentence: {(target, source): mark for (source, target), mark in links.items()}
            for sentence, links in marked.items()
        }
    return GoldFile(name, marked, sentences)


_PHARAOH_LINK = re.compile(r"(\d{1,9})([-?])(\d{1,9})", re.ASCII)


def _pharaoh(lines: Sequence[str], name: str) -> tuple[dict[int, dict[Link, Marked]], int]:
    sentences: dict[int, dict[Link, Marked]] = {}
    for number, line in enumerate(lines, start=1):
        links = sentences[number - 1] = {}
        for item in line.split():
            match = _PHARAOH_LINK.fullmatch(item)
            if not match:
                raise ValueError(
                    f"{name}:{number}: a link reads source-target, such as 0-1 or 0?1, not {item!r}"
                )
            _mark(links, (int(match[1]), int(match[3])), match[2] == "-", number)
    return sentences, len(lines)


_NUMBER = r"[-+]?[\d.]+(?:[eE][-+]?\d+)?"
_WA_LINK = re.compile(
    rf"(\d{{1,9}})\s+(\d{{1,9}})\s+(\d{{1,9}})(?:\s+([SP]))?(?:\s+{_NUMBER})?", re.ASCII
)


def _wa(lines: Sequence[str], name: str) -> tuple[dict[int, dict[Link, Marked]], None]:
    """Read links; those without S or P are sure, a confidence is ignored, and word 0 is NULL."""
    sentences: dict[int, dict[Link, Marked]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        match = _WA_LINK.fullmatch(line.strip())
        if not match or not int(match[1]):
            raise ValueError(
                f"{name}:{number}: a link reads sentence, source word, target word and S or P, "
                f"counted from 1, such as 1 2 3 S, not {line.strip()!r}"
            )
        sentence, source, target = (int(match[i]) - 1 for i in (1, 2, 3))
        if source >= 0 and target >= 0:
            links = sentences.setdefault(sentence, {})
            _mark(links, (source, target), match[4] != "P", number)
    return sentences, None


def _mark(links: dict[Link, Marked], link: Link, sure: bool, line: int) -> None:
    """Add a link. A repeated link keeps its first line, and is sure if any of its marks is."""
    before = links.get(link)
    links[link] = Marked(sure or bool(before and before.sure), before.line if before else line)


# Name of a format -> function (lines, name) -> (links by sentence, number of sentences or None).
FORMATS: Mapping[
    str, Callable[[Sequence[str], str], tuple[dict[int, dict[Link, Marked]], int | None]]
] = MappingProxyType({"pharaoh": _pharaoh, "wa": _wa})
