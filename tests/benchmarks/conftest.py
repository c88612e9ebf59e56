"""Programs of other environments, where the tests know one."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")  # it skips a test before its other fixtures are made
def torch_python() -> Path:
    named = os.environ.get("BAHDANAU_TORCH_PYTHON", "")
    if not named:
        pytest.skip("BAHDANAU_TORCH_PYTHON is not set: it names a Python that has torch")
    return Path(named)
