"""Train one experiment; the same as `bahdanau train`. Run again on the same folder, it resumes.

python train.py configs/quickstart.py --workdir runs/quickstart [--model.hidden-size 512 ...]
"""

import sys

from bahdanau_jax.cli.main import main

if __name__ == "__main__":
    sys.argv.insert(1, "train")
    sys.exit(main())
