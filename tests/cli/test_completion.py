"""Completion scripts, read by the shells themselves."""

import shutil
import subprocess

import pytest

from bahdanau_jax.cli import completion_command
from bahdanau_jax.cli.main import COMMANDS
from bahdanau_jax.configurations import shipped


def completed(tmp_path, command_line, *words) -> list[str]:
    """What bash offers at the end of a command line."""
    code, script, err = command_line("completion", "bash")
    assert (code, err) == (0, "")
    path = tmp_path / "completion.bash"
    path.write_text(script)
    line = " ".join(f"'{word}'" for word in ("bahdanau", *words))
    ask = (
        f"source {path}; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _bahdanau; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-uc", ask], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_commands_options_and_named_values(tmp_path, command_line):
    def offered(*words):
        return completed(tmp_path, command_line, *words)

    assert offered("tra") == ["train", "translate"]
    assert set(offered("")) == {*COMMANDS, "--help", "--version"}
    assert offered("train", "qui") == ["quickstart"] and "quickstart" in shipped()
    assert offered("train", "quickstart", "--model.att") == ["--model.attention"]
    assert "local_p" in offered("train", "quickstart", "--model.attention", "")
    assert offered("sweep", "primes", "--model.gate-bias", "T") == ["True"]
    assert offered("reproduce", "len") == ["lengths"]
    assert offered("translate", "--input", "") == []  # then bash offers files
    assert offered("sweep", "primes", "--vary", "model.att") == ["model.attention="]
    assert offered("train", "--help", "opt") == ["optimizer"]
    assert "train" not in offered("translate", "--run", "x", "--", "")
    launch = "launch", "--processes", "2", "--"
    assert set(offered(*launch, "")) == {*COMMANDS, "--help", "--version"}
    assert offered(*launch, "train", "qui") == ["quickstart"]
    assert offered(*launch, "train", "quickstart", "--model.att") == ["--model.attention"]


@pytest.mark.parametrize("shell, check", [("bash", "-n"), ("zsh", "-n"), ("fish", "-n")])
def test_the_scripts_are_read_by_their_shells(shell, check, tmp_path, command_line):
    code, script, _ = command_line("completion", shell)
    assert code == 0 and "--model.attention".replace("--", "") in script
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(script)
    subprocess.run([shell, check, path], check=True)


def test_fish_has_a_line_for_every_option():
    commands = {"a": {"": ("x",), "--help": (), "--b.c": ("1", "2"), "--d": ()}}
    assert [*completion_command.fish(commands)][1:] == [
        "complete -c bahdanau -n '__fish_seen_subcommand_from a' -a 'x'",
        "complete -c bahdanau -n '__fish_seen_subcommand_from a' -l help",
        "complete -c bahdanau -n '__fish_seen_subcommand_from a' -l b.c -xa '1 2'",
        "complete -c bahdanau -n '__fish_seen_subcommand_from a' -l d -r",
    ]


def test_an_unknown_shell(command_line):
    code, _, err = command_line("completion", "bsh")
    assert code == 2 and "did you mean 'bash'?" in err or "bash" in err
