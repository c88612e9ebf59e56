"""Completion scripts, read by the shells themselves."""

import shlex
import shutil
import subprocess

import pytest

from bahdanau_jax.cli import completion_command
from bahdanau_jax.cli.main import COMMANDS
from bahdanau_jax.configurations import shipped


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """The file of a shell's script, quoted; the test is skipped where the shell is missing."""
    folder = tmp_path_factory.mktemp("scripts")

    def written(shell: str):
        if not shutil.which(shell):
            pytest.skip(f"{shell} is not installed")
        path = folder / shell
        if not path.exists():
            text = completion_command.SCRIPTS[shell]
            commands = {command: completion_command.words(command) for command in COMMANDS}
            path.write_text("\n".join(text(commands)) + "\n")
        return shlex.quote(str(path))

    return written


_ASK = 'COMP_WORDS=({}); COMP_CWORD={}; _bahdanau; printf "%s\\n" "${{COMPREPLY[@]}}"'


def _answer(shell: str, program: str) -> list[str]:
    done = subprocess.run([shell, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [line for line in done.stdout.split("\n") if line]


def _words(words) -> str:
    return " ".join(f"'{word}'" for word in ("bahdanau", *words))


@pytest.fixture
def bash(script):
    """What bash offers at the end of a command line, whose words it splits at =."""

    def offered(*words):
        program = f"set -u; source {script('bash')}; {_ASK.format(_words(words), len(words))}"
        return _answer("bash", program)

    return offered


@pytest.fixture
def zsh(script):
    """What zsh offers, with the spaces that follow; it does not split words at =.

    zsh itself leaves out the words that do not begin as the last one does.
    """
    bash_emulation = "autoload -U +X compinit && compinit -u -D; source {}; emulate sh"

    def offered(*words):
        program = f"{bash_emulation.format(script('zsh'))}; setopt kshglob; "
        found = _answer("zsh", program + _ASK.format(_words(words), len(words)))
        return [each for each in found if each.startswith(words[-1])]

    return offered


@pytest.fixture
def fish(script):
    def offered(*words):
        line = " ".join(("bahdanau", *words))
        return _answer("fish", f"source {script('fish')}; complete -C '{line}'")

    return offered


def test_bash_completes_commands_options_and_named_values(bash):
    assert bash("tra") == ["train", "translate"]
    assert set(bash("")) == {*COMMANDS, "--help", "--version"}
    assert bash("train", "qui") == ["quickstart"] and "quickstart" in shipped()
    assert bash("train", "quickstart", "--model.att") == ["--model.attention"]
    assert "local_p" in bash("train", "quickstart", "--model.attention", "")
    assert bash("sweep", "primes", "--model.gate-bias", "T") == ["True"]
    assert bash("train", "quickstart", "--dry-run", "--wo") == ["--workdir"]
    assert bash("reproduce", "len") == ["lengths"]
    assert bash("translate", "--input", "") == []  # then bash offers files
    assert bash("sweep", "primes", "--vary", "model.att") == ["model.attention="]
    assert bash("sweep", "primes", "--vary", "model.gate_bias", "=", "T") == ["True"]
    assert bash("train", "quickstart", "--data.unicode", "N") == ["NFC", "NFKC"]
    assert bash("translate", "--checkpoint", "") == ["best", "newest"]  # and a number
    assert bash("train", "quickstart", "--model.attention", "=", "lo") == ["local_m", "local_p"]
    assert "local_p" in bash("train", "quickstart", "--model.attention", "=")
    assert bash("translate", "--input", "=", "") == []
    assert bash("train", "--help", "opt") == ["optimizer"]
    assert "train" not in bash("translate", "--run", "x", "--", "")
    launch = "launch", "--processes", "2", "--"
    assert set(bash(*launch, "")) == {*COMMANDS, "--help", "--version"}
    assert bash(*launch, "train", "qui") == ["quickstart"]
    assert bash(*launch, "train", "quickstart", "--model.att") == ["--model.attention"]


def test_zsh_completes_the_same_with_a_space_after_whole_words(zsh):
    assert zsh("tra") == ["train ", "translate "]
    assert zsh("train", "quickstart", "--model.att") == ["--model.attention "]
    assert zsh("train", "quickstart", "--dry-run", "--wo") == ["--workdir "]
    assert zsh("train", "quickstart", "--model.order=luong", "--wo") == ["--workdir "]
    assert zsh("translate", "--input", "") == []
    assert zsh("sweep", "primes", "--vary", "model.att") == ["model.attention="]
    assert zsh("sweep", "primes", "--vary", "model.gate_bias=T") == ["model.gate_bias=True "]
    both = ["--model.attention=local_m ", "--model.attention=local_p "]
    assert zsh("train", "quickstart", "--model.attention=lo") == both
    launch = "launch", "--processes", "2", "--"
    assert zsh(*launch, "train", "quickstart", "--model.att") == ["--model.attention "]


def test_fish_completes_the_same(fish):
    assert fish("tra") == ["train", "translate"]
    assert fish("--vers") == ["--version"]
    assert fish("train", "qui") == ["quickstart"]
    assert fish("train", "quickstart", "--model.att") == ["--model.attention"]
    assert fish("train", "quickstart", "--model.attention", "lo") == ["local_m", "local_p"]
    assert fish("train", "quickstart", "--dry-run", "--wo") == ["--workdir"]
    assert fish("train", "quickstart", "--data.unicode", "N") == ["NFC", "NFKC"]
    assert fish("sweep", "primes", "--vary", "model.att") == ["model.attention="]
    launch = "launch", "--processes", "2", "--"
    assert fish(*launch, "tra") == ["train", "translate"]
    assert fish(*launch, "train", "quickstart", "--model.att") == ["--model.attention"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_are_read_by_their_shells(shell, tmp_path, command_line):
    code, script, _ = command_line("completion", shell)
    assert code == 0 and "model.attention" in script
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(script)
    subprocess.run([shell, "-n", path], check=True)


def test_an_unknown_shell(command_line):
    code, _, err = command_line("completion", "bsh")
    assert code == 2 and "bash" in err
