"""The rules of the Moses tokeniser and detokeniser, in plain Python.

moses.json holds the character classes and prefixes of both languages. The rules are those of the
program sacremoses (MIT licence, Copyright 2020 alvations), without its escaping.
"""

import itertools
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

UNKNOWN = "<unk>"  # one token, also where it touches other text
PROTECTED = "THISISPROTECTED"  # stands for a protected token
DOTS = re.compile(r"\.{2,}")  # which stay together, as DOTDOTMULTI
HIDDEN_DOTS = re.compile(r"(?:DOT)+MULTI")
PUNCTUATION = re.compile(r"^[\,\.\?\!\:\;\\\%\}\]\)]+$")
QUOTES = re.compile(r"^[\'\"„“`]+$")
DIGITS = re.compile(r"^[0-9]+$")
ELIDING = ("fr", "it", "ga")

ENGLISH_APOSTROPHES = (
    (r"([^{alpha}])[']([^{alpha}])", r"\1 ' \2"),
    (r"([^{alpha}{number}])[']([{alpha}])", r"\1 ' \2"),
    (r"([{alpha}])[']([^{alpha}])", r"\1 ' \2"),
    (r"([{alpha}])[']([{alpha}])", r"\1 '\2"),
    (r"([{number}])[']([s])", r"\1 '\2"),
)
ROMANCE_APOSTROPHES = (
    (r"([^{alpha}])[']([^{alpha}])", r"\1 ' \2"),
    (r"([^{alpha}])[']([{alpha}])", r"\1 ' \2"),
    (r"([{alpha}])[']([^{alpha}])", r"\1 ' \2"),
    (r"([{alpha}])[']([{alpha}])", r"\1' \2"),
)
OTHER_APOSTROPHES = ((r"\'", " ' "),)
# Language -> the substitutions at apostrophes, in their order.
APOSTROPHES = {"en": ENGLISH_APOSTROPHES, "fr": ROMANCE_APOSTROPHES, "it": ROMANCE_APOSTROPHES}


class Moses:
    """The tokeniser and detokeniser of one language; `rules` is its entry in moses.json."""

    def __init__(self, rules: Mapping[str, Any]):
        classes, self.language = rules["classes"], rules["language"]

        def compiled(pattern: str) -> re.Pattern:
            for name, characters in classes.items():
                pattern = pattern.replace("{" + name + "}", characters)
            return re.compile(pattern)

        apostrophes = APOSTROPHES.get(self.language, OTHER_APOSTROPHES)
        commas = (r"([^{number}])[,]", r"\1 , "), (r"[,]([^{number}])", r" , \1")
        commas = (*commas, (r"([{number}])[,]$", r"\1 , "))
        self.splits = [(compiled(p), by) for p, by in (*commas, *apostrophes)]
        self.special = compiled(r"([^{alnum}\s\.'\`\,\-])")
        self.alpha, self.lower = compiled("[{alpha}]"), compiled("[{lower}]")
        self.prefixes, self.numeric = set(rules["prefixes"]), set(rules["numeric_prefixes"])
        self.currency = compiled(r"^[{currency}\(\[\{\¿\¡]+$")
        self.contraction = compiled(r"^['][{letter}]")
        self.elision, self.letter = compiled(r"[{letter}][']$"), compiled("^[{letter}]")
        self.cjk = rules["cjk"]  # [first, last] code point of each range

    def tokenize(self, text: str) -> str:
        """Tokens with single spaces between them.

        >>> Moses(rules["fr"]).tokenize("L'homme n'a pas vu, hier.")
        "L' homme n' a pas vu , hier ."
        """
        is_protected = UNKNOWN in text  # before control characters within it are removed
        text = re.sub(r"[\000-\037]", "", re.sub(r"\s+", " ", text))
        protected = re.findall(UNKNOWN, text, re.IGNORECASE) if is_protected else []
        longest = max((len(run) for run in re.findall(f"{PROTECTED}(X*)", text)), default=-1)
        marks = [f"{PROTECTED}{'X' * (longest + 1)}{i:03}" for i in range(len(protected))]
        for token, mark in zip(protected, marks, strict=True):
            text = text.replace(token, mark)
        text = self.special.sub(r" \1 ", text.strip())
        end = len(text)
        text = DOTS.sub(lambda dots: _hide(dots) + " " * (dots.end() < end), text)
        for pattern, by in self.splits:
            text = pattern.sub(by, text)
        text = " ".join(self._split_periods(text.split()))
        text = re.sub(r"\.' ?$", " . ' ", text)
        for token, mark in zip(protected, marks, strict=True):
            text = text.replace(mark, token)
        return " ".join(HIDDEN_DOTS.sub(lambda dots: "." * ((len(dots[0]) - 5) // 3), text).split())

    def _split_periods(self, tokens: list[str]) -> list[str]:
        """Split the period from a token, except after abbreviations and inside sentences."""
        split = []
        for token, after in itertools.pairwise([*tokens, ""]):
            word = token[:-1]
            stays = (
                not word
                or token[-1] != "."
                or ("." in word and self.alpha.search(word))
                or (word in self.prefixes and word not in self.numeric)
                or (after and self.lower.match(after))
                or (word in self.numeric and re.match(r"[0-9]", after))
            )
            split.append(token if stays else f"{word} .")
        return split

    def detokenize(self, tokenised: str) -> str:
        """Ordinary text of one line.

        >>> Moses(rules["fr"]).detokenize("L' homme n' a pas vu , hier .")
        "L'homme n'a pas vu, hier."
        """
        tokens = f" {' '.join(tokenised.split())} ".replace(" @-@ ", "-").split()
        quotes: Counter[str] = Counter()
        text, space = "", " "
        for i, token in enumerate(tokens):
            joins_left, joins_right = self._joins(tokens, i, quotes)
            if self.language == "fr" and re.search(r"^[\?\!\:\;\\\%]$", token):
                text += " "
            text += token if joins_left else space + token
            space = "" if joins_right else " "
        return re.sub(" {2,}", " ", text).strip()

    def _joins(self, tokens: list[str], i: int, quotes: Counter[str]) -> tuple[bool, bool]:
        """Whether token i has no space before it, and none after it."""
        token, after = tokens[i], tokens[i + 1] if i + 1 < len(tokens) else ""
        if self._is_cjk(token[0]) and self.language != "ko":
            return i > 0 and self._is_cjk(tokens[i - 1][-1]), False
        if self.currency.search(token):
            return False, True
        if PUNCTUATION.search(token):
            return True, False
        if self.language == "en" and i > 0 and self.contraction.search(token):
            return True, False
        if self.language == "cs" and i > 1 and DIGITS.search(token) and _ends_in_decimal(tokens):
            return True, False
        elides = self.language in ELIDING and self.elision.search(token)
        if elides and self.letter.search(after):
            return False, True
        return self._quote(tokens, i, quotes) if QUOTES.search(token) else (False, False)

    def _quote(self, tokens: list[str], i: int, quotes: Counter[str]) -> tuple[bool, bool]:
        """The same of quotation marks, which open and close in turn."""
        token = tokens[i]
        kind = '"' if re.search("^[„“”]+$", token) else token
        if self.language == "cs" and token in "„“":
            quotes[kind] = "„“".index(token)
        closes = quotes[kind] % 2 == 1
        if not closes and self.language == "en" and token == "'" and i and tokens[i - 1][-1] == "s":
            return True, False  # the genitive of a plural: the Jones' house
        quotes[kind] += 1
        return closes, not closes

    def _is_cjk(self, character: str) -> bool:
        return any(first <= ord(character) <= last for first, last in self.cjk)


def _hide(dots: re.Match) -> str:
    return f" {'DOT' * len(dots[0])}MULTI"


def _ends_in_decimal(tokens: list[str]) -> bool:
    """What the original asks of the sentence's end before it joins Czech numbers."""
    return bool(DIGITS.search(tokens[-2]) and re.search("^[.,]$", tokens[-1]))
