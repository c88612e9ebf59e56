"""The commands in the documents: each one parses, and the options and settings it names exist."""

import dataclasses
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from bahdanau_jax.cli import fields, main, manual, options
from bahdanau_jax.config import Config
from benchmarks import __main__ as benchmarks

ROOT = Path(__file__).resolve().parent.parent
HISTORY = ("decisions", "engineering-log.md")  # they name commands of their time
DOCUMENTS = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if not set(HISTORY) & set(path.relative_to(ROOT).parts)
)
# A command of earlier commits, which measured figures in docs/performance.md name.
FORMER = "bench"

SHELLS = ("", "sh", "bash", "console")  # languages of blocks with commands; "" for none
FENCED = re.compile(r"(?ms)^```(\w*)\n(.*?)^```")
INDENTED = re.compile(r"(?m)(?<=\n)(?:    .*\n)+")
INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
OPERATOR = re.compile(r"[();<>|&]+")  # what ends a command in a shell

BENCHMARKS = {name: options for name, (options, _) in benchmarks.BENCHMARKS.items()}
COMMANDS = {name: fields.options_of(name) for name in main.COMMANDS}
# Options that documents name without a command, and that are those of other programs.
FOREIGN = {"--proto", "--state", "--normalize", "--confidence", "--help", "--version"}
FILES = {"model.safetensors", "training.metrics"}  # names of files that begin as settings do


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(text: str) -> Iterator[str]:
    """The command lines of a document's blocks, each with its continuations."""
    for language, body in FENCED.findall(text):
        if language in SHELLS:
            yield from body.replace("\\\n", " ").splitlines()
    for body in INDENTED.findall(FENCED.sub("", text)):
        yield from body.replace("\\\n", " ").splitlines()


def commands(line: str) -> Iterator[list[str]]:
    """The arguments of each `bahdanau` and of each benchmark in a shell's line.

    >>> list(commands("echo a | bahdanau translate --run runs/one > out  # and so on"))
    [['translate', '--run', 'runs/one']]
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    for at, word in enumerate(words):
        ends = (i for i in range(at, len(words)) if OPERATOR.fullmatch(words[i]))
        end = next(ends, len(words))
        if word == "bahdanau":
            yield words[at + 1 : end]
        elif words[at : at + 3] == ["python", "-m", "benchmarks"]:
            yield ["benchmarks", *words[at + 3 : end]]
        elif "bahdanau " in word:  # a command in quotes
            yield from commands(word[word.index("bahdanau ") :].rstrip(")"))


def classes(arguments: list[str]) -> tuple[dict[str, type], list[str]]:
    if arguments[:1] == ["benchmarks"]:
        return BENCHMARKS, arguments[1:]
    return COMMANDS, arguments


def parse(arguments: list[str]) -> None:
    """Parse a command as the command line does; its runs and files need not exist."""
    table, arguments = classes(arguments)
    if arguments[0].startswith("-"):
        assert arguments[0] in ("--help", "--version")
        return
    name, *rest = arguments
    assert name in table, f"no command {name}"
    if "--" in rest:
        at = rest.index("--")
        rest, launched = rest[:at], rest[at + 1 :]
        parse(launched)
    topic = options.help_asked(table[name], rest)[1]
    if topic is not None:
        assert topic in ("", *manual.topics(table[name]))
        return
    options.parse(table[name], rest, name)


def names(arguments: list[str]) -> set[str]:
    """The options of a command in a sentence, whose values may be placeholders."""
    table, arguments = classes(arguments)
    given = {word.partition("=")[0] for word in arguments if re.match(r"--[a-z]", word)}
    if not arguments or not arguments[0].islower():  # `bahdanau COMMAND`, or the program itself
        return set()
    known = {option.name for option in fields.options(table[arguments[0]])}
    if arguments[0] == "launch":
        known |= {option.name for option in fields.options(COMMANDS["train"])}
    return given - known - {"--help"}


def sentences(text: str) -> list[str]:
    """The code in a document's sentences, without line breaks."""
    prose = INDENTED.sub("\n", FENCED.sub("", text))
    return [" ".join(code.split()) for code in INLINE.findall(prose)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_in_blocks_parse(path):
    for line in blocks(read(path)):
        if "bahdanau " not in line and "-m benchmarks" not in line:
            continue
        if re.match(r"\s*bahdanau: ", line):  # a message, not a command
            continue
        for arguments in commands(line):
            try:
                parse(arguments)
            except ValueError as error:
                raise AssertionError(f"{line.strip()}: {error}") from None


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_in_sentences_exist(path):
    for code in sentences(read(path)):
        if not re.search(r"\bbahdanau [a-z]|-m benchmarks", code):
            continue
        for arguments in commands(code.replace("\\|", "|")):
            if arguments[:1] == [FORMER] and path.name == "performance.md":
                continue
            table, rest = classes(arguments)
            if rest and rest[0].islower():
                assert rest[0] in table, f"{code}: no command {rest[0]}"
            assert not names(arguments), f"{code}: no option {names(arguments)}"


KNOWN = {
    option.name
    for table in (COMMANDS, BENCHMARKS)
    for cls in table.values()
    for option in fields.options(cls)
}
GUIDES = sorted([*(ROOT / "docs/howto").glob("*.md"), ROOT / "docs/reference/exit-codes.md"])


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_the_options_and_settings_in_how_to_pages_exist(path):
    settings = {
        f"{section.name}.{field.name}"
        for section in dataclasses.fields(Config)
        for field in dataclasses.fields(getattr(Config(), section.name))
    }
    for code in sentences(read(path)):
        if option := re.match(r"--[a-z][\w.-]*", code):
            is_known = option[0] in KNOWN | FOREIGN or option[0].startswith("--xla_")
            assert is_known, f"{code}: no such option"
        if field := re.match(r"(model|data|optimizer|training|decoding)\.[a-z]\w*(?![\w(])", code):
            assert field[0] in settings | FILES, f"{code}: no such setting"


def test_the_index_of_the_how_to_pages_lists_each_page_once():
    index = read(ROOT / "docs/howto/README.md")
    listed = re.findall(r"(?m)^- \[(.*?)\]\((.*?)\)", index)
    pages = [path for path in (ROOT / "docs/howto").glob("*.md") if path.name != "README.md"]
    titles = [(read(page).partition("\n")[0].removeprefix("# "), page.name) for page in pages]
    assert sorted(listed) == sorted(titles)
