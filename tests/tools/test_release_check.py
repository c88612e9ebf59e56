"""The lines and the exit code of the checks; the contents of a wheel and of an sdist."""

import io
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tools import release_check, release_environment
from tools.release_check import Check, Release
from tools.release_contents import Failed, LeftOut

TREE = {
    "bahdanau_jax/run.py": "",
    "bahdanau_jax/page.css": "",
    "configs/tiny.py": "",
    "tests/test_run.py": "",
    "LICENSE": "",
    "MANIFEST.in": "",
    "README.md": "",
    "pyproject.toml": '[project]\nversion = "1.2"\n',
    "setup.py": "",
}


@pytest.fixture
def release(tmp_path, monkeypatch):
    root = tmp_path / "checkout"
    for name, text in TREE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "CHANGELOG.md").write_text("## [1.2] - 2026-05-04\n\n## [1.1] - Unreleased\n")
    monkeypatch.setattr(release_check, "tracked", lambda _: list(TREE))
    (tmp_path / "release/dist").mkdir(parents=True)
    return Release(root, tmp_path / "release")


def write_wheel(release, names, version="1.2"):
    info = "bahdanau_jax-1.2.dist-info"
    with zipfile.ZipFile(release.folder / "dist/a.whl", "w") as file:
        for name in names:
            file.writestr(name, "")
        head = f"Name: bahdanau-jax\nVersion: {version}\nLicense-Expression: Apache-2.0\n"
        head += "Requires-Dist: jax>=0.10.2,<0.11.3\nRequires-Dist: grain>=0.2; extra == 'docs'\n"
        head += "Provides-Extra: cuda\nProvides-Extra: docs\n\n"
        file.writestr(f"{info}/METADATA", head)
        file.writestr(f"{info}/entry_points.txt", "[console_scripts]\nbahdanau = a:main\n")
        file.writestr(f"{info}/licenses/LICENSE", "")


WHEEL = ["bahdanau_jax/run.py", "bahdanau_jax/page.css", "bahdanau_jax/configs/tiny.py"]


def test_a_complete_wheel(release):
    write_wheel(release, WHEEL)
    assert release_check.wheel_contents(release).startswith("3 files")
    assert release_check.metadata(release) == "bahdanau-jax 1.2, Apache-2.0"


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (WHEEL[:1] + WHEEL[2:], "lacks bahdanau_jax/page.css"),
        (WHEEL[:2], "lacks bahdanau_jax/configs/tiny.py"),
        ([*WHEEL, "tests/test_run.py"], "has tests/test_run.py, which should not be there"),
    ],
)
def test_another_wheel_is_refused(release, names, fault):
    write_wheel(release, names)
    with pytest.raises(Failed, match=fault):
        release_check.wheel_contents(release)


def test_a_wheel_of_another_version_is_refused(release):
    write_wheel(release, WHEEL, version="1.1")
    with pytest.raises(Failed, match="version 1.1, not 1.2"):
        release_check.metadata(release)


def test_a_version_without_a_date_in_the_changelog_is_refused(release):
    write_wheel(release, WHEEL)
    (release.root / "CHANGELOG.md").write_text("## [1.2] - Unreleased\n\n## [1.1] - 2026-05-04\n")
    with pytest.raises(Failed, match=r"CHANGELOG.md has no date for 1\.2"):
        release_check.metadata(release)


def write_sdist(release, names):
    with tarfile.open(release.folder / "dist/a.tar.gz", "w:gz") as file:
        for name in names:
            file.addfile(tarfile.TarInfo(f"a-1.2/{name}"), io.BytesIO())


def test_the_source_distribution_has_what_the_wheel_is_built_of(release):
    names = [name for name in TREE if not name.startswith("tests/")]
    write_sdist(release, [*names, "PKG-INFO", "setup.cfg", "a.egg-info/SOURCES.txt"])
    assert release_check.sdist_contents(release).startswith("8 files")
    write_sdist(release, [*names[1:], "tests/test_run.py"])
    with pytest.raises(Failed, match="lacks bahdanau_jax/run.py; has tests/test_run.py"):
        release_check.sdist_contents(release)


def test_a_program_runs_in_an_empty_folder_without_the_paths_of_this_one(release, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "here")
    text = release.output("env", "sh", "-c", 'cat; ls; echo "[$PYTHONPATH]"', text="in\n")
    assert text == "in\n[]\n"
    assert (release.folder / "logs/env.log").read_text().endswith("in\n[]\n")
    with pytest.raises(Failed, match=r"exit code 3: second \(logs/bad.log\)"):
        release.output("bad", "sh", "-c", "echo first >&2; echo second >&2; exit 3")


def failing(release):
    raise Failed("it is wrong")


def unexpected(release):
    return str([][0])


def impossible(release):
    raise LeftOut("no data")


CHECKS = {
    "one": Check(lambda release: "fine"),
    "two": Check(impossible, "one"),
    "three": Check(failing, "one"),
    "four": Check(lambda release: "never", "three"),
    "five": Check(unexpected),
}


def test_each_check_has_a_line_and_a_failed_one_is_exit_code_1(release, capsys):
    assert release_check.main(release, CHECKS) == 1
    assert capsys.readouterr().out.splitlines() == [
        "ok        one                  fine",
        "left out  two                  no data",
        "failed    three                it is wrong",
        "left out  four                 needs the check 'three'",
        "failed    five                 IndexError: list index out of range",
    ]


def stand_in(release, text, name="bahdanau", environment="newest"):
    """Write a program that stands in for an installed one."""
    program = release.folder / environment / "bin" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(text)
    program.chmod(0o755)


@pytest.mark.parametrize(("bleu", "fault"), [(97.5, None), (12.0, "BLEU 12.0, below 90")])
def test_the_quickstart_has_to_translate_well(release, monkeypatch, bleu, fault):
    """A program stands in for the installed one: it writes a report, and translates."""
    stand_in(
        release,
        f'#!/bin/sh\nif [ $1 = train ]; then mkdir -p "$4/report"\n'
        f'echo \'{{"BLEU": {bleu}}}\' > "$4/report/scores.json"; else cat; fi\n',
    )
    if fault is None:
        assert release_check.quickstart(release, "newest").startswith("BLEU 97.5 and a translation")
    else:
        with pytest.raises(Failed, match=fault):
            release_check.quickstart(release, "newest")


EXPORTER = """#!/bin/sh
if [ $1 = translate ]; then cat; exit; fi
case "$5" in
*.html) echo page > "$5" ;;
*) mkdir "$5"; echo "exec tr -d @" > "$5/translate.py" ;;
esac
"""


@pytest.mark.parametrize("same", [True, False])
def test_an_exported_model_translates_as_its_run(release, monkeypatch, same):
    stand_in(release, EXPORTER)
    stand_in(release, '#!/bin/sh\nexec sh "$2"\n', "python")
    monkeypatch.setattr(release_check, "SENTENCE", "a cat" if same else "a cat @")
    if same:
        assert release_check.export(release, "newest").startswith("the translation of the run")
    else:
        with pytest.raises(Failed, match=r"writes 'a cat \\n', not 'a cat @\\n'"):
            release_check.export(release, "newest")


SERVER = f"""#!{sys.executable}
import json, signal, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
text, code = TEXT, CODE
if code is None:
    sys.exit("no run")
class Handler(BaseHTTPRequestHandler):
    def answer(self, content):
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.answer({{"paths": {{"/translate": {{}}}}}})
    def do_POST(self):
        assert json.loads(self.rfile.read(int(self.headers["Content-Length"])))["lines"]
        self.answer({{"translations": [[{{"text": text}}]]}})
server = HTTPServer(("127.0.0.1", 0), Handler)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(code))
print(f"bahdanau: ready; see http://127.0.0.1:{{server.server_port}}/openapi.json", flush=True)
server.serve_forever()
"""


@pytest.mark.parametrize(
    ("text", "code", "fault"),
    [
        ("un chat", 0, None),
        ("", 0, "an empty translation"),
        ("un chat", 1, r"exit code 1 after SIGTERM \(logs/serve-newest.log\)"),
        ("un chat", None, r"did not become ready \(logs/serve-newest.log\)"),
    ],
)
def test_a_server_answers_and_ends(release, text, code, fault):
    stand_in(release, SERVER.replace("TEXT", repr(text)).replace("CODE", repr(code)))
    if fault is None:
        assert release_check.server(release, "newest").startswith("a translation, 1 paths")
    else:
        with pytest.raises(Failed, match=fault):
            release_check.server(release, "newest")


UV = f"""#!{sys.executable}
import json, pathlib, sys
arguments = sys.argv[1:]
with open(CALLS, "a") as file:
    print(*arguments, file=file)
if arguments[0] == "venv":
    if arguments[2] in MISSING:
        sys.exit("no interpreter")
    python = pathlib.Path(arguments[3]) / "bin" / "python"
    python.parent.mkdir(parents=True, exist_ok=True)
    number = arguments[2] if arguments[2][0] == "3" else "3.10"
    python.write_text(f"#!/bin/sh\\necho Python {{number}}.7\\n")
    python.chmod(0o755)
elif arguments[1] == "list":
    print(json.dumps([dict(name="jax", version=JAX)]))
elif "cuda" in arguments[-1] and "--dry-run" in arguments:
    sys.exit(EXTRA)
"""


def uv(release, jax="0.11.2", missing=(), extra=None):
    """A stand-in for uv, which finds all Pythons but the missing ones; returns its calls."""
    calls = release.folder / "calls"
    text = UV.replace("CALLS", repr(str(calls))).replace("MISSING", repr(missing))
    stand_in(release, text.replace("JAX", repr(jax)).replace("EXTRA", repr(extra)), "uv", "tools")
    write_wheel(release, WHEEL)
    return calls


def test_each_environment_has_its_python_and_resolution(release):
    calls = uv(release)
    made = release_environment.install(release, "newest")
    assert made == "1 packages on Python 3.13.7, jax 0.11.2"
    assert release_environment.newest_jax(release) == "jax 0.11.2 on Python 3.13.7"
    with pytest.raises(Failed, match="jax>=0.10.2, but the oldest that installs is 0.11.2"):
        release_environment.install(release, "oldest")
    lines = calls.read_text().splitlines()
    assert [line for line in lines if line.startswith("venv")] == [
        f"venv --python {version} {release.folder / name}"
        for name, version in (("newest", "3.13"), ("oldest", "3.11"))
    ]
    installed = [line for line in lines if line.startswith("pip install")]
    assert ["--resolution highest " in line for line in installed] == [True, False]
    assert ["--resolution lowest-direct " in line for line in installed] == [False, True]


def test_the_newest_jax_is_no_lower_bound(release):
    uv(release, jax="0.10.2")
    release_environment.install(release, "newest")
    with pytest.raises(Failed, match="jax 0.10.2 is the newest on Python 3.13.7, and also the lo"):
        release_environment.newest_jax(release)


def test_without_the_newest_python_the_newest_jax_is_left_out(release):
    uv(release, jax="0.10.2", missing=("3.13",))
    made = release_environment.install(release, "newest")
    assert made == "1 packages on Python 3.10.7, jax 0.10.2"  # this program's, by its path
    with pytest.raises(LeftOut, match=r"on Python 3.10.7, and .*: uv has no Python 3.13"):
        release_environment.newest_jax(release)


def test_the_oldest_python_is_the_lower_bound():
    root = Path(release_check.__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = release_environment.ENVIRONMENTS["oldest"].python
    assert project["requires-python"] == f">={oldest}"


def test_each_extra_can_be_installed(release):
    calls = uv(release)
    assert release_environment.extras(release) == "cuda, docs can be installed"
    asked = [line.split("bahdanau-jax")[1] for line in calls.read_text().splitlines()]
    wheel = release.wheel.as_uri()
    assert asked == [f"[cuda] @ {wheel}", f"[docs] @ {wheel}"]
    uv(release, extra="no version of jax-cuda13-plugin")
    with pytest.raises(Failed, match="^cuda: see logs/extra-cuda.log$"):
        release_environment.extras(release)
    log = (release.folder / "logs/extra-cuda.log").read_text()
    assert "no version of jax-cuda13-plugin" in log


def test_checks_that_are_left_out_are_no_failure(release):
    assert release_check.main(release, {"one": CHECKS["one"], "two": CHECKS["two"]}) == 0


def test_a_check_needs_an_earlier_one():
    earlier: set[str] = set()
    for name, check in release_check.CHECKS.items():
        assert not check.needs or check.needs in earlier
        earlier.add(name)
