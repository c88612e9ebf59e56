"""docs/results/eflomal_links.py with a program in the place of eflomal."""

import json
import runpy
import stat
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs/results/eflomal_links.py"
# Links word n with word n.
PROGRAM = f"""#!{sys.executable}
import sys
_, _, _, name, _, forward, _, reverse = sys.argv
pairs = [line.split(" ||| ") for line in open(name, encoding="utf-8")]
for output in (forward, reverse):
    with open(output, "w") as file:
        for source, target in pairs:
            size = min(len(source.split()), len(target.split()))
            file.write(" ".join(f"{{n}}-{{n}}" for n in range(size)) + "\\n")
"""


@pytest.fixture
def links(trained, tmp_path, monkeypatch, capsys):
    program = tmp_path / "eflomal-align"
    program.write_text(PROGRAM)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def run(source, target, gold):
        for name, text in (("en", source), ("fr", target), ("pharaoh", gold)):
            (tmp_path / name).write_text(text, encoding="utf-8")
        files = [str(tmp_path / name) for name in ("en", "fr", "pharaoh")]
        corpus = "builtin:en-fr/train?pairs=20"
        command = [str(SCRIPT), str(trained[0]), str(program), *files, "token", corpus]
        monkeypatch.setattr(sys, "argv", command)
        runpy.run_path(str(SCRIPT), run_name="__main__")
        return json.loads(capsys.readouterr().out)

    return run


@pytest.mark.slow
def test_links_are_those_of_the_text_behind_the_training_pairs(links):
    found = links("She sings\nNo\n", "Elle chante\nNon\n", "0-0 1-1\n0-0\n")
    assert (found["pairs"], found["sentences"], found["AER"]) == (22, 2, 0)
    wrong = links("She sings\nNo\n", "Elle chante\nNon\n", "0-1 1-0\n0-0\n")
    assert wrong["AER"] == pytest.approx(1 - 2 / 6)


@pytest.mark.slow
def test_a_pair_with_a_blank_side_has_no_links_and_moves_no_others(links):
    found = links("She sings\n\nNo\n", "Elle chante\nOui oui\nNon\n", "0-0 1-1\n\n0-0\n")
    assert (found["pairs"], found["sentences"], found["AER"]) == (22, 3, 0)
    with pytest.raises(ValueError, match="1 source lines but 2 target lines"):
        links("No\n", "Non\nOui\n", "0-0\n")
