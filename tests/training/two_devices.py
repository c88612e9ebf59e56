"""A program that trains two runs by vmapped updates on two virtual devices, one run on each.

Its argument is the folder of both run folders. It prints the errors of the runs as JSON.
"""

import json
import sys
from pathlib import Path

import jax

jax.config.update("jax_num_cpu_devices", 2)

from tests.training import test_many_runs  # noqa: E402

if __name__ == "__main__":
    assert len(jax.local_devices()) == 2
    errors = test_many_runs.together(Path(sys.argv[1]), seeds=(1, 2))
    print(json.dumps({index: str(error) for index, error in errors.items()}))
