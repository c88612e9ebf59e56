"""What a release has to contain and to need: comparisons of names, versions and weaknesses."""

import json
import subprocess
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from email import message_from_string
from pathlib import Path
from types import MappingProxyType

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

PACKAGE = "bahdanau_jax"
# Folders of the checkout -> where the wheel has their files.
SHIPPED: Mapping[str, str] = MappingProxyType(
    {f"{PACKAGE}/": f"{PACKAGE}/", "configs/": f"{PACKAGE}/configs/"}
)


class Failed(Exception):
    """A check that found a fault; the message is its line."""


class LeftOut(Exception):
    """A check that could not be made; the message is the reason."""


def refuse(faults: Sequence[str]) -> None:
    """Raise Failed with the first faults, if there are any."""
    if faults:
        more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise Failed("; ".join(faults[:3]) + more)


def tracked(root: Path) -> list[str]:
    """The files of a checkout that git tracks, with / between folders."""
    command = ("git", "-C", str(root), "ls-files", "-z")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"expected a git checkout at {root}: {done.stderr.strip()}")
    return [name for name in done.stdout.split("\0") if name and (root / name).is_file()]


def shipped(files: Iterable[str]) -> set[str]:
    """The names in the wheel of those tracked files that it has to hold.

    >>> sorted(shipped(["configs/a.py", "bahdanau_jax/run.py", "tests/test_run.py"]))
    ['bahdanau_jax/configs/a.py', 'bahdanau_jax/run.py']
    """
    return {
        there + name.removeprefix(here)
        for name in files
        for here, there in SHIPPED.items()
        if name.startswith(here)
    }


def differences(expected: set[str], found: set[str]) -> list[str]:
    """The differences between two sets of names, one in each line; empty if there are none."""
    return [
        *(f"lacks {name}" for name in sorted(expected - found)),
        *(f"has {name}, which should not be there" for name in sorted(found - expected)),
    ]


def metadata_of(wheel: Path) -> str:
    """The text of a wheel's METADATA."""
    with zipfile.ZipFile(wheel) as file:
        (name,) = (n for n in file.namelist() if n.endswith(".dist-info/METADATA"))
        return file.read(name).decode()


def requirements(wheel: Path) -> list[Requirement]:
    """The requirements of a wheel without its extras."""
    lines = message_from_string(metadata_of(wheel)).get_all("Requires-Dist", [])
    needed = map(Requirement, lines)
    return [each for each in needed if not each.marker or each.marker.evaluate({"extra": ""})]


def lower_bounds(needed: Iterable[Requirement], installed: Mapping[str, str]) -> list[str]:
    """The requirements whose lower bound is not the installed version, one in each line.

    >>> lower_bounds([Requirement("numpy>=2.0,<3")], {"numpy": "2.1.0"})
    ['numpy>=2.0, but the oldest that installs is 2.1.0']
    """
    faults = []
    for each in needed:
        version = installed[canonicalize_name(each.name)]
        bounds = [s.version for s in each.specifier if s.operator == ">="]
        if not bounds:
            faults.append(f"{each.name} has no lower bound")
        elif Version(bounds[0]) != Version(version):
            faults.append(f"{each.name}>={bounds[0]}, but the oldest that installs is {version}")
    return faults


def weaknesses(output: str) -> tuple[list[str], list[str]]:
    """The known weaknesses, and the packages without data, by the JSON of pip-audit.

    Raises LeftOut where it is no JSON, or has data of no package.
    """
    try:
        packages = json.loads(output)["dependencies"]
    except ValueError:
        raise LeftOut("pip-audit could not read its data (logs/audit.log)") from None
    skipped = [each["name"] for each in packages if "skip_reason" in each]
    if len(skipped) == len(packages):
        raise LeftOut("pip-audit has no data of any package (logs/audit.log)")
    known = [
        f"{each['name']} {each['version']}: {weakness['id']}"
        for each in packages
        for weakness in each.get("vulns", ())
    ]
    return known, skipped


def licence_table(packages: Iterable[Mapping[str, str]]) -> str:
    """A Markdown table of the packages of pip-licenses' JSON.

    Some packages have the text of their licence in the place of its name, which is its first line.
    """
    lines = ["| package | version | licence | address |", "|---|---|---|---|"]
    for each in packages:
        licence = each["License"].strip().splitlines()[0]
        lines.append(f"| {each['Name']} | {each['Version']} | {licence} | {each['URL']} |")
    return "\n".join(lines) + "\n"
