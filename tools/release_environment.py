"""The environments of a release: programs in them, and what is installed there."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from email import message_from_string
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from packaging.utils import canonicalize_name

from tools.release_contents import (
    Failed,
    LeftOut,
    lower_bounds,
    metadata_of,
    refuse,
    requirements,
)


class Environment(NamedTuple):
    """How uv makes an environment."""

    resolution: str  # of the ranges of pyproject.toml
    python: str  # its version, where uv finds or loads it, and else this program's


# JAX 0.11 needs Python 3.12. The oldest Python is the lower bound of `requires-python`.
ENVIRONMENTS: Mapping[str, Environment] = MappingProxyType(
    {"newest": Environment("highest", "3.13"), "oldest": Environment("lowest-direct", "3.11")}
)


class Release(NamedTuple):
    """The checkout, and the folder of everything that is made of it."""

    root: Path
    folder: Path

    @property
    def wheel(self) -> Path:
        return next((self.folder / "dist").glob("*.whl"))

    @property
    def sdist(self) -> Path:
        return next((self.folder / "dist").glob("*.tar.gz"))

    def program(self, environment: str, name: str) -> str:
        return str(self.folder / environment / "bin" / name)

    def begin(self, log: str, *command: str, piped: bool) -> "subprocess.Popen[str]":
        """Start a program in an empty folder, without the paths of this process.

        Its input and output are pipes, or its output goes to logs/LOG.log, after the command.
        """
        empty, logs = self.folder / "empty", self.folder / "logs"
        for folder in (empty, logs):
            folder.mkdir(parents=True, exist_ok=True)
        hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        environment = {k: v for k, v in os.environ.items() if k not in hidden}
        environment["JAX_COMPILATION_CACHE_DIR"] = str(self.folder / "programs")
        with (logs / f"{log}.log").open("w") as file:
            print(*command, file=file, flush=True)
            into, out, err = [subprocess.PIPE] * 3 if piped else [subprocess.DEVNULL, file, file]
            return subprocess.Popen(
                command, cwd=empty, env=environment, text=True, stdin=into, stdout=out, stderr=err
            )

    def run(self, log: str, *command: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program to its end; its whole output goes to logs/LOG.log."""
        with self.begin(log, *command, piped=True) as process:
            output, errors = process.communicate(text)
        with (self.folder / "logs" / f"{log}.log").open("a") as file:
            file.write(f"{output}{errors}")
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def output(self, log: str, *command: str, text: str = "") -> str:
        """The standard output of a program; raises Failed if its exit code is not 0."""
        done = self.run(log, *command, text=text)
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            raise Failed(f"exit code {done.returncode}: {' '.join(last)} (logs/{log}.log)")
        return done.stdout


def install(release: Release, name: str) -> str:
    """Install the wheel into an empty environment by uv; the oldest one has the lower bounds."""
    uv, python = release.program("tools", "uv"), release.program(name, "python")
    needed, chosen = requirements(release.wheel), ENVIRONMENTS[name]
    # uv resolves only direct requirements to their lowest versions, so they are named beside it.
    direct = release.folder / "requirements.txt"
    direct.write_text("\n".join(map(str, needed)) + "\n", encoding="utf-8")
    folder = str(release.folder / name)
    log = f"environment-{name}"
    if release.run(log, uv, "venv", "--python", chosen.python, folder).returncode:
        release.output(f"{log}-here", uv, "venv", "--python", sys.executable, folder)
    asked = ("--python", python, "--resolution", chosen.resolution)
    files = (str(release.wheel), "-r", str(direct))
    release.output(f"install-{name}", uv, "pip", "install", *asked, *files)
    installed = _installed(release, name)
    refuse(lower_bounds(needed, installed) if name == "oldest" else [])
    return f"{len(installed)} packages on {_python(release, name)}, jax {installed['jax']}"


def _installed(release: Release, name: str) -> dict[str, str]:
    """The versions of the packages of an environment."""
    uv, python = release.program("tools", "uv"), release.program(name, "python")
    listed = release.output(f"list-{name}", uv, "pip", "list", "--python", python, "--format=json")
    return {canonicalize_name(each["name"]): each["version"] for each in json.loads(listed)}


def _python(release: Release, name: str) -> str:
    """Such as "Python 3.13.5"."""
    return release.output(f"python-{name}", release.program(name, "python"), "--version").strip()


def newest_jax(release: Release) -> str:
    """The newest versions have a newer JAX than the oldest ones have.

    Left out where there was no Python of the version for it.
    """
    (needed,) = (each for each in requirements(release.wheel) if each.name == "jax")
    version, python = _installed(release, "newest")["jax"], _python(release, "newest")
    if lower_bounds([needed], {"jax": version}):  # it is another version
        return f"jax {version} on {python}"
    line = f"jax {version} is the newest on {python}, and also the lower bound"
    wanted = ENVIRONMENTS["newest"].python
    if python.startswith(f"Python {wanted}."):
        raise Failed(line)
    raise LeftOut(f"{line}: uv has no Python {wanted}")


def extras(release: Release) -> str:
    """The requirements of each extra can be installed, beside the newest versions."""
    uv, python = release.program("tools", "uv"), release.program("newest", "python")
    found = message_from_string(metadata_of(release.wheel))
    names, faults = found.get_all("Provides-Extra", []), []
    for name in names:
        asked = ("--dry-run", "--python", python)
        wheel = f"{found['Name']}[{name}] @ {release.wheel.as_uri()}"
        done = release.run(f"extra-{name}", uv, "pip", "install", *asked, wheel)
        faults += [f"{name}: see logs/extra-{name}.log"] if done.returncode else []
    refuse(faults)
    return f"{', '.join(names)} can be installed"
