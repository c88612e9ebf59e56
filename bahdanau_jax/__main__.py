"""`python -m bahdanau_jax` is `bahdanau`."""

import sys

from bahdanau_jax.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
