"""The docstrings of the package as Markdown, for mkdocstrings.

The docstrings are plain text with equations, shapes and doctests. In Markdown, `h_j [B S]` would be
emphasis and a link, and a doctest would be a quotation. So all of it is escaped, and doctests and
indented blocks become code blocks. Constants and fields are documented by their comments.
"""

import re
from collections.abc import Iterator
from typing import Any

import griffe

from tools.site import comments, signatures

SECTION = re.compile(r"(Args|Returns|Raises|Yields|Attributes|Examples?):")
ITEM = re.compile(r"(\s*)(\w+)(: .*)")
LONGEST_DEFAULT = 30  # characters; a longer default of a field is not shown
LONGEST_VALUE = 60  # characters; a longer value of a constant is not shown
CODE = re.compile(r"(`+[^`]+`+)")
SPECIAL = re.compile(r"([\\*_\[\]>|#$])")


def escaped(line: str) -> str:
    """A line of text whose characters Markdown does not interpret, except in `code`."""
    parts = CODE.split(line)
    return "".join(
        part if index % 2 else SPECIAL.sub(r"\\\1", part.replace("&", "&amp;").replace("<", "&lt;"))
        for index, part in enumerate(parts)
    )


def markdown(text: str) -> str:
    """A docstring as Markdown, whose sections (Args, Raises, ...) stay as griffe reads them."""
    return "\n".join(_blocks(text.split("\n"))).strip("\n")


def _blocks(lines: list[str]) -> Iterator[str]:
    section, index = False, 0
    while index < len(lines):
        line = lines[index]
        indented = line.startswith("    ")
        if SECTION.fullmatch(line):
            section = True
            yield line
        elif line.strip().startswith(">>>") or (indented and not section):
            language = "pycon" if line.strip().startswith(">>>") else "text"
            block = _block(lines, index, language)
            yield from ["", f"```{language}", *_dedented(block), "```", ""]
            index += len(block) - 1
        elif section and (item := ITEM.fullmatch(line)):
            yield item[1] + item[2] + escaped(item[3])
        else:
            section = section and (indented or not line)
            yield escaped(line)
        index += 1


def _block(lines: list[str], index: int, language: str) -> list[str]:
    """The lines of a code block that begins at `index`: a doctest ends before an empty line."""
    end, indented = index, lines[index].startswith("    ")
    while end < len(lines) and (
        lines[end].strip()
        and (not indented or lines[end].startswith("    "))
        or (language == "text" and _goes_on(lines, end))
    ):
        end += 1
    return lines[index:end]


def _goes_on(lines: list[str], index: int) -> bool:
    """Whether an empty line is followed by another indented one."""
    after = lines[index + 1 : index + 2]
    return bool(after) and not lines[index].strip() and after[0].startswith("    ")


def _dedented(block: list[str]) -> list[str]:
    indent = min(len(line) - len(line.lstrip()) for line in block if line.strip())
    return [line[indent:] for line in block]


def sentence(words: str) -> str:
    """A comment as a sentence. A symbol at its beginning, such as m or n', stays as it is."""
    first = words.partition(" ")[0]
    if first.isalpha() and (len(first) > 2 or first in ("a", "an", "of", "no", "by")):
        words = words[0].upper() + words[1:]
    return escaped(words if words.endswith(".") else f"{words}.") if words else ""


def fields(cls: griffe.Class) -> dict[str, str]:
    """The public fields of a class with their comments; "" for a field without a comment."""
    attributes = (member for member in cls.members.values() if member.is_attribute)
    return {
        attribute.name: _comment(attribute)
        for attribute in attributes
        if isinstance(attribute, griffe.Attribute)
        and not attribute.name.startswith("_")
        and attribute.annotation is not None
        and "property" not in attribute.labels
    }


def _default(cls: griffe.Class, name: str) -> str:
    """The default of a field, to follow its words; "" where it has none, or a long one."""
    member = cls.members[name]
    value = str(member.value or "") if isinstance(member, griffe.Attribute) else ""
    return f" (default `{value}`)" if 0 < len(value) <= LONGEST_DEFAULT else ""


def _comment(attribute: griffe.Attribute) -> str:
    if not isinstance(attribute.filepath, list) and attribute.lineno:
        lines = attribute.filepath.read_text(encoding="utf-8").splitlines()
        inside = attribute.parent is not None and attribute.parent.is_class
        of = comments.of_field if inside else comments.of_constant
        return of(lines, attribute.lineno, attribute.endlineno or attribute.lineno)
    return ""


class PlainDocstrings(griffe.Extension):
    """Makes Markdown of each docstring, and docstrings of comments."""

    def on_object(self, *, obj: griffe.Object, loader: Any, **kwargs: Any) -> None:
        if isinstance(obj, griffe.Attribute) and obj.docstring is None:
            if words := _comment(obj):
                obj.docstring = griffe.Docstring(sentence(words), parent=obj)
            if len(str(obj.value)) > LONGEST_VALUE and not signatures.is_alias(obj):
                obj.value = None
        elif obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)
        if isinstance(obj, griffe.Class) and (listed := fields(obj)):
            rows = [
                f"    {name}: {escaped(words)}{_default(obj, name)}"
                for name, words in listed.items()
                if words
            ]
            if obj.docstring is None:
                obj.docstring = griffe.Docstring("", parent=obj, parser="google")
            if rows:
                obj.docstring.value = "\n".join([obj.docstring.value, "", "Attributes:", *rows])
