"""What `make` would run."""

import os
import shutil
import subprocess

import pytest

from tests import small


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
@pytest.mark.parametrize("python", ["/opt/jax/bin/python", ""])
def test_make_accelerator_installs_nothing_for_a_python_that_is_named(python):
    """With a file that does not exist as the mark of the installed packages, make would install."""
    command = ["make", "-n", "accelerator", "INSTALLED=no/mark"]
    command += [f"ACCELERATOR_PYTHON={python}"] if python else []
    hidden = ("ACCELERATOR_PYTHON", "MAKEFLAGS", "MAKELEVEL")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=small.ROOT, env=environment, check=True
    )
    assert ("pip install" in done.stdout) == (not python)
    *_, last = done.stdout.splitlines()
    assert last.strip().startswith(f"{python or '.venv/bin/python'} -m pytest")
