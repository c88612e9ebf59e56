"""bahdanau completion SHELL"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar

import tyro

from bahdanau_jax.cli import fields, manual, options
from bahdanau_jax.cli.choices import SUITES
from bahdanau_jax.configurations import shipped
from bahdanau_jax.names import choose

GLOBAL = ("--help", "--version")  # options without a command
SWITCH = ("True", "False")
Words = Mapping[str, Sequence[str]]  # option -> its named values; () where it takes any


@dataclass(frozen=True)
class Completion:
    """Print a script with which a shell completes commands, options and the names of choices."""

    shell: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SHELL")]  # bash, zsh or fish

    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau completion bash",
        "bahdanau completion fish",
    )

    @staticmethod
    def listing() -> str:
        """How each shell reads its script, for the help."""
        return manual.table("shells:", SHELLS)


# Shell -> the line of its start file that reads the script.
SHELLS: Mapping[str, str] = MappingProxyType(
    {
        "bash": 'in ~/.bashrc: eval "$(bahdanau completion bash)"',
        "zsh": 'in ~/.zshrc, after compinit: eval "$(bahdanau completion zsh)"',
        "fish": "in config.fish: bahdanau completion fish | source",
    }
)
# Positional arguments -> their named values.
POSITIONAL: Mapping[str, Callable[[], Sequence[str]]] = MappingProxyType(
    {
        "CONFIG": lambda: sorted(shipped()),
        "SUITE": lambda: sorted(SUITES),
        "SHELL": lambda: sorted(SHELLS),
    }
)


def main(arguments: Sequence[str]) -> None:
    chosen = options.parse(Completion, arguments, "bahdanau completion")
    script = choose(SCRIPTS, chosen.shell, "shell")
    from bahdanau_jax.cli.main import COMMANDS

    print("\n".join(script({command: words(command) for command in COMMANDS})))


def words(command: str) -> dict[str, Sequence[str]]:
    """The options of a command, and under "" the named values of its positional argument.

    >>> words("train")["--model.gate-bias"]
    ('True', 'False')
    """
    own = fields.options_of(command)
    known: dict[str, Sequence[str]] = {"--help": tuple(manual.topics(own))}
    for option in fields.options(own, f"bahdanau {command}"):
        if option.name.startswith("-"):
            choices = tuple(name for name in option.choices if not _stands_for_others(name))
            named = SWITCH if option.value == "True|False" else choices
            known[option.name] = () if option.value == "ADDRESS" else named
        elif option.name in POSITIONAL:
            known[""] = tuple(POSITIONAL[option.name]())
    if "--vary" in known:  # fields have a group, such as model.
        settings = (name[2:].replace("-", "_") for name in known if "." in name)
        known["--vary"] = tuple(f"{name}=" for name in settings)
    return known


def _stands_for_others(name: str) -> bool:
    """Whether a choice is a placeholder.

    >>> [*map(_stands_for_others, ("STEP", "MODULE:NAME", "NFC"))]
    [True, True, False]
    """
    return name == "STEP" or (":" in name and name.isupper())


def bash(commands: Mapping[str, Words]) -> Iterator[str]:
    """The script of bash: other words than options and named values are files."""
    yield from _function(commands)
    yield '  COMPREPLY=($(compgen -P "$prefix" -W "$words" -- "$word"))'
    yield '  if [ "$option" = --vary ]; then compopt -o nospace 2>/dev/null; fi'
    yield "}"
    yield "complete -o bashdefault -o default -F _bahdanau bahdanau"


def zsh(commands: Mapping[str, Words]) -> Iterator[str]:
    """The script of zsh, by its emulation of bash, which adds no space or one to every word."""
    yield "autoload -U +X bashcompinit && bashcompinit"
    yield from _function(commands)
    yield '  local space=" " found'
    yield '  if [ "$option" = --vary ]; then space=""; fi'
    yield '  found="$(compgen -P "$prefix" -S "$space" -W "$words" -- "$word")"'
    yield '  COMPREPLY=(); if [ -n "$found" ]; then COMPREPLY=("${(@f)found}"); fi'
    yield "}"
    yield "complete -o nospace -o bashdefault -o default -F _bahdanau bahdanau"


def _function(commands: Mapping[str, Words]) -> Iterator[str]:
    """The beginning of the function of bash and zsh, which chooses the words to offer.

    `option` is the option whose value is completed. Its value may be a word of its own, or follow
    an equals sign, at which bash splits words and zsh does not. A field of --vary has the values
    of its option. The words after `bahdanau launch ... --` are a command of their own.
    """
    yield "_bahdanau() {"
    yield '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"'
    yield '  local words="" prefix="" option="" equals="" i first=1'
    yield '  if [ "$word" = "=" ]; then option="$before" word="" equals=1'
    yield '  elif [ "$before" = "=" ]; then option="${COMP_WORDS[COMP_CWORD-2]}" equals=1'
    yield '  else case "$word" in'
    yield '    *=*) option="${word%%=*}" prefix="${word%%=*}=" word="${word#*=}" equals=1 ;;'
    yield "    -*) ;;"
    yield '    *) option="$before" ;;'
    yield "  esac; fi"
    yield '  case "$equals$option" in'
    yield '    1[a-z]*) option="--${option//_/-}" ;;'
    yield "  esac"
    yield "  for ((i = 2; i < COMP_CWORD; i++)); do"
    yield '    if [ "${COMP_WORDS[1]} ${COMP_WORDS[i]}" = "launch --" ]; then'
    yield "      first=$((i + 1)); break"
    yield "    fi"
    yield "  done"
    yield '  if [ "$COMP_CWORD" -eq "$first" ]; then'
    yield f'    words="{" ".join(commands)} {" ".join(GLOBAL)}"'
    yield '  else case "${COMP_WORDS[first]} $option" in'
    for command, known in commands.items():
        for option, named in known.items():
            if option.startswith("-"):
                yield f'    "{command} {option}") words="{" ".join(named)}" ;;'
    yield '    *) case "$equals${COMP_WORDS[first]}" in'
    for command, known in commands.items():
        listed = [*known.get("", ()), *(option for option in known if option)]
        yield f'      {command}) words="{" ".join(listed)}" ;;'
    yield "    esac ;;"
    yield "  esac; fi"


def fish(commands: Mapping[str, Words]) -> Iterator[str]:
    """The script of fish: a line for each command and each option.

    The command is the first word, or the first one after `bahdanau launch ... --`. A yes-or-no
    option needs no value, so another option may follow it.
    """
    yield "function __bahdanau_command"
    yield "  set -l words (commandline -opc)[2..]"
    yield '  if test "$words[1]" = launch; and set -l at (contains -i -- -- $words)'
    yield "    set words $words[(math $at + 1)..]"
    yield "  end"
    yield '  test "$words[1]" = "$argv[1]"'
    yield "end"
    yield f"complete -c bahdanau -f -n __bahdanau_command -a '{' '.join(commands)}'"
    for option in GLOBAL:
        yield f"complete -c bahdanau -n __bahdanau_command -l {option[2:]}"
    for command, known in commands.items():
        seen = f"complete -c bahdanau -n '__bahdanau_command {command}'"
        for option, named in known.items():
            if not option:
                yield f"{seen} -a '{' '.join(named)}'"
            elif named == SWITCH or option == "--help":  # which needs no topic
                yield f"{seen} -l {option[2:]}"
            elif named:
                yield f"{seen} -l {option[2:]} -xa '{' '.join(named)}'"
            else:
                yield f"{seen} -l {option[2:]} -r"
    launched = "contains -- -- (commandline -opc); and __bahdanau_command"
    for command, known in commands.items():  # fish offers no options after --
        listed = " ".join(option for option in known if option)
        yield f"complete -c bahdanau -n '{launched} {command}' -a '{listed}'"


SCRIPTS: Mapping[str, Callable[[Mapping[str, Words]], Iterator[str]]] = MappingProxyType(
    {"bash": bash, "zsh": zsh, "fish": fish}
)
