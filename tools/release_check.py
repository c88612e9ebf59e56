"""Builds the release, compares its contents, installs it with old and new versions, and tries it.

python -m tools.release_check

One line is printed for each check: ok, failed, or left out. The exit code is 1 if one failed. The
folder build/release is made anew. Afterwards it holds the wheel and the source distribution in
dist/, the list of licences, the environments, and the whole output of every program in logs/. The
registry of packages has to be reachable.
"""

import json
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import tomllib
import urllib.request
import venv
import zipfile
from collections.abc import Callable, Mapping
from email import message_from_string
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from tools.release_contents import (
    SHIPPED,
    Failed,
    LeftOut,
    differences,
    licence_table,
    refuse,
    shipped,
    tracked,
    weaknesses,
)
from tools.release_environment import Release, extras, install, newest_jax

AROUND = (
    "LICENSE",
    "MANIFEST.in",
    "README.md",
    "pyproject.toml",
    "setup.py",
)  # also in the source distribution
GENERATED = ("PKG-INFO", "setup.cfg")  # which setuptools adds to it
TOOLS = ("build", "uv", "pip-licenses", "pip-audit")
SENTENCE = "The man saw a white house ."
LEAST_BLEU = 90  # of the quickstart, on its 500 test sentences
PATIENCE = 300.0  # seconds, for a server to become ready, answer or end


def build(release: Release) -> str:
    """Build both distributions from the tracked files alone, the wheel from the sdist."""
    source = release.folder / "source"
    for name in tracked(release.root):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(release.root / name, source / name)
    venv.create(release.folder / "tools", with_pip=True)
    python = release.program("tools", "python")
    release.output("tools", python, "-m", "pip", "install", "--quiet", *TOOLS)
    outdir = str(release.folder / "dist")
    release.output("build", python, "-m", "build", "--outdir", outdir, str(source))
    sizes = (f"{p.name} {p.stat().st_size / 1e6:.1f} MB" for p in (release.wheel, release.sdist))
    return ", ".join(sizes)


def wheel_contents(release: Release) -> str:
    """The wheel holds every tracked file of the package and of configs/, and no other."""
    with zipfile.ZipFile(release.wheel) as file:
        names = {name for name in file.namelist() if ".dist-info/" not in name}
    expected = shipped(tracked(release.root))
    refuse(differences(expected, names))
    return f"{len(names)} files, those of {' and '.join(SHIPPED)}"


def sdist_contents(release: Release) -> str:
    """The source distribution holds what the wheel is built of."""
    with tarfile.open(release.sdist) as file:
        names = {member.name.partition("/")[2] for member in file if member.isfile()}
    names = {name for name in names if name not in GENERATED and ".egg-info/" not in name}
    expected = {n for n in tracked(release.root) if n.startswith(tuple(SHIPPED)) or n in AROUND}
    refuse(differences(expected, names))
    return f"{len(names)} files, those of the wheel and {', '.join(AROUND)}"


def metadata(release: Release) -> str:
    """The wheel has the version of pyproject.toml, the licence and the command.

    The changelog has a date for this version.
    """
    project = tomllib.loads((release.root / "pyproject.toml").read_text(encoding="utf-8"))
    with zipfile.ZipFile(release.wheel) as file:
        (info,) = {n.partition("/")[0] for n in file.namelist() if ".dist-info/" in n}
        found = message_from_string(file.read(f"{info}/METADATA").decode())
        names, points = file.namelist(), file.read(f"{info}/entry_points.txt").decode()
    version = project["project"]["version"]
    faults = [] if found["Version"] == version else [f"version {found['Version']}, not {version}"]
    faults += [] if f"{info}/licenses/LICENSE" in names else ["lacks the licence"]
    faults += [] if "bahdanau = " in points else ["lacks the command bahdanau"]
    changes = (release.root / "CHANGELOG.md").read_text(encoding="utf-8")
    dated = re.search(rf"(?m)^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changes)
    faults += [] if dated else [f"CHANGELOG.md has no date for {version}"]
    refuse(faults)
    return f"{found['Name']} {version}, {found['License-Expression']}"


def doctor(release: Release, name: str) -> str:
    """`bahdanau doctor` finds no problem."""
    lines = release.output(f"doctor-{name}", release.program(name, "bahdanau"), "doctor")
    return lines.strip().splitlines()[-1].removeprefix("ok").strip()


def quickstart(release: Release, name: str) -> str:
    """Train the quickstart, which writes its report, and translate a line."""
    program, began = release.program(name, "bahdanau"), time.monotonic()
    run = release.folder / f"run-{name}"
    release.output(f"train-{name}", program, "train", "quickstart", "--workdir", str(run))
    bleu = json.loads((run / "report/scores.json").read_text(encoding="utf-8"))["BLEU"]
    refuse([] if bleu >= LEAST_BLEU else [f"BLEU {bleu:.1f}, below {LEAST_BLEU}"])
    command = (program, "translate", "--run", str(run))
    lines = release.output(f"translate-{name}", *command, text=f"{SENTENCE}\n")
    if lines.count("\n") != 1:
        raise Failed(f"expected one line of translation, got {lines.count(chr(10))}")
    return f"BLEU {bleu:.1f} and a translation, {time.monotonic() - began:.0f} s"


def export(release: Release, name: str) -> str:
    """Export the quickstart as a page, and as a folder that translates without the package."""
    program, python = release.program(name, "bahdanau"), release.program(name, "python")
    run, folder = str(release.folder / f"run-{name}"), release.folder / f"model-{name}"
    page = release.folder / f"page-{name}.html"
    for output in (folder, page):
        asked = ("--run", run, "--output", str(output), "--overwrite", "True")
        release.output(f"export-{name}{output.suffix}", program, "export", *asked)
    exported = (python, "-P", str(folder / "translate.py"))
    lines = release.output(f"exported-{name}", *exported, text=f"{SENTENCE}\n")
    expected = release.output(
        f"translate-again-{name}", program, "translate", "--run", run, text=f"{SENTENCE}\n"
    )
    refuse([] if lines == expected else [f"the exported model writes {lines!r}, not {expected!r}"])
    return f"the translation of the run, and a page of {page.stat().st_size / 1e6:.1f} MB"


def server(release: Release, name: str) -> str:
    """Serve the quickstart: it answers a request, describes itself, and ends with exit code 0."""
    run, log = str(release.folder / f"run-{name}"), release.folder / "logs" / f"serve-{name}.log"
    command = (release.program(name, "bahdanau"), "serve", "--run", run, "--port", "0")
    began = time.monotonic()
    process = release.begin(log.stem, *command, piped=False)
    try:
        address = _address(process, log)
        body = json.dumps({"lines": [SENTENCE]}).encode()
        head = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{address}/translate", body, head)
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            text = json.load(answer)["translations"][0][0]["text"]
        with urllib.request.urlopen(f"{address}/openapi.json", timeout=PATIENCE) as answer:
            paths = json.load(answer)["paths"]
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        raise Failed(f"it did not end after SIGTERM (logs/{log.name})") from None
    finally:
        process.kill()
        process.wait()
    refuse([] if text else ["an empty translation"])
    refuse([] if code == 0 else [f"exit code {code} after SIGTERM (logs/{log.name})"])
    return f"a translation, {len(paths)} paths, {time.monotonic() - began:.0f} s"


def _address(process: "subprocess.Popen[str]", log: Path) -> str:
    """The address of a server, once it is ready; raises Failed where it ends or waits too long."""
    end = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:
        if ready := re.search(r"ready; see (http://[^/]+)/", log.read_text()):
            return ready[1]
        time.sleep(0.1)
    raise Failed(f"the server did not become ready (logs/{log.name})")


def licences(release: Release) -> str:
    """List the licences of all dependencies, and those that name none."""
    target, program = release.folder / "licences.md", release.program("tools", "pip-licenses")
    asked = ("--python", release.program("newest", "python"), "--from=mixed", "--with-urls")
    listed = release.output("licences", program, *asked, "--format=json")
    packages = json.loads(listed)
    target.write_text(licence_table(packages), encoding="utf-8")
    unknown = [each["Name"] for each in packages if each["License"].upper() == "UNKNOWN"]
    missing = f"; none is named by {', '.join(unknown)}" if unknown else ""
    return f"{len(packages)} packages in {target}{missing}"


def audit(release: Release) -> str:
    """No dependency has a known weakness, by pip-audit's data."""
    (folder,) = (release.folder / "newest" / "lib").glob("python*/site-packages")
    asked = ("--path", str(folder), "--format", "json", "--progress-spinner", "off")
    done = release.run("audit", release.program("tools", "pip-audit"), *asked)
    known, skipped = weaknesses(done.stdout)
    refuse(known)
    return f"no known weakness; no data of {', '.join(skipped)}"


ROOT = Path(__file__).resolve().parent.parent
RELEASE = Release(ROOT, ROOT / "build" / "release")


class Check(NamedTuple):
    """A check, and the one without which it cannot be made."""

    make: Callable[[Release], str]
    needs: str = ""


def checks_of(name: str) -> dict[str, Check]:
    """The checks of the environment of that name."""
    installed, trained = f"{name} versions", f"{name}: quickstart"
    return {
        installed: Check(lambda release: install(release, name), "build"),
        f"{name}: doctor": Check(lambda release: doctor(release, name), installed),
        trained: Check(lambda release: quickstart(release, name), installed),
        f"{name}: export": Check(lambda release: export(release, name), trained),
        f"{name}: server": Check(lambda release: server(release, name), trained),
    }


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "build": Check(build),
        "wheel": Check(wheel_contents, "build"),
        "source distribution": Check(sdist_contents, "build"),
        "metadata": Check(metadata, "build"),
        **checks_of("newest"),
        **checks_of("oldest"),
        "newest: JAX": Check(newest_jax, "newest versions"),
        "extras": Check(extras, "newest versions"),
        "licences": Check(licences, "newest versions"),
        "audit": Check(audit, "newest versions"),
    }
)


def made(name: str, check: Check, release: Release, passed: set[str]) -> tuple[str, str]:
    """(ok, failed or left out, text) of a check. `passed` are the names of those that were ok."""
    if check.needs and check.needs not in passed:
        return "left out", f"needs the check {check.needs!r}"
    try:
        text = check.make(release)
    except (Failed, OSError) as error:
        return "failed", str(error)
    except LeftOut as error:
        return "left out", str(error)
    except (ValueError, LookupError, StopIteration) as error:  # output of an unexpected form
        return "failed", f"{type(error).__name__}: {error}"
    passed.add(name)
    return "ok", text


def main(release: Release = RELEASE, checks: Mapping[str, Check] = CHECKS) -> int:
    """Make all checks, print a line for each, and return the exit code."""
    shutil.rmtree(release.folder, ignore_errors=True)
    passed, failed = set(), False
    for name, check in checks.items():
        outcome, text = made(name, check, release, passed)
        failed = failed or outcome == "failed"
        print(f"{outcome:10}{name:21}{text}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
