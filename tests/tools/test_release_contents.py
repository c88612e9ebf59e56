"""What a release has to contain and to need."""

import json
import subprocess
import zipfile

import pytest
from packaging.requirements import Requirement

from tools import release_contents as contents


def test_shipped_names_are_those_of_the_package_and_the_configurations():
    files = ["bahdanau_jax/py.typed", "configs/a.py", "tests/a.py", "docs/a.md", "train.py"]
    assert contents.shipped(files) == {"bahdanau_jax/py.typed", "bahdanau_jax/configs/a.py"}


def test_differences_name_what_is_missing_and_what_is_too_much():
    assert contents.differences({"a", "b"}, {"a", "b"}) == []
    assert contents.differences({"a", "b"}, {"b", "tests/c"}) == [
        "lacks a",
        "has tests/c, which should not be there",
    ]


def test_many_faults_are_one_line():
    contents.refuse([])
    with pytest.raises(contents.Failed, match="^a; b; c and 1 more$"):
        contents.refuse(["a", "b", "c", "d"])


def test_tracked_files_exist(tmp_path):
    def git(*arguments):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True, capture_output=True)

    with pytest.raises(contents.Failed, match="expected a git checkout"):
        contents.tracked(tmp_path)
    git("init")
    for name in ("é.txt", "gone.txt", "untracked.txt"):
        (tmp_path / name).write_text("x")
    git("add", "é.txt", "gone.txt")
    (tmp_path / "gone.txt").unlink()
    assert contents.tracked(tmp_path) == ["é.txt"]


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "a-1-py3-none-any.whl"
    lines = ["Name: a", "Requires-Dist: numpy<3,>=2.0", 'Requires-Dist: ruff; extra == "dev"']
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a-1.dist-info/METADATA", "\n".join(lines) + "\n\ntext")
    return path


def test_requirements_are_those_without_extras(wheel):
    assert [str(each) for each in contents.requirements(wheel)] == ["numpy<3,>=2.0"]


@pytest.mark.parametrize(
    ("needed", "version", "fault"),
    [
        ("Some_Name>=2.0", "2.0.0", None),
        ("some.name>=2.0,<3", "2.1.0", "some.name>=2.0, but the oldest that installs is 2.1.0"),
        ("some-name<3", "2.1.0", "some-name has no lower bound"),
    ],
)
def test_lower_bounds_are_the_oldest_that_install(needed, version, fault):
    faults = contents.lower_bounds([Requirement(needed)], {"some-name": version})
    assert faults == ([fault] if fault else [])


def test_weaknesses_are_read_from_the_audit():
    packages = [
        {"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1"}]},
        {"name": "b", "version": "2", "vulns": []},
        {"name": "bahdanau-jax", "skip_reason": "not on the registry"},
    ]
    output = json.dumps({"dependencies": packages})
    assert contents.weaknesses(output) == (["a 1: PYSEC-1"], ["bahdanau-jax"])


@pytest.mark.parametrize(
    "output", ["no connection", '{"dependencies": [{"name": "a", "skip_reason": "not found"}]}']
)
def test_an_audit_without_data_is_left_out(output):
    with pytest.raises(contents.LeftOut):
        contents.weaknesses(output)


def test_the_licence_of_a_package_is_one_line():
    packages = [{"Name": "a", "Version": "1", "License": " Apache\n  Terms", "URL": "x"}]
    assert contents.licence_table(packages).splitlines()[2:] == ["| a | 1 | Apache | x |"]
