"""Measure whether alpha predicts what happens when a source word is masked; JSON on stdout.

python docs/results/masking_study.py RUN_FOLDER [SENTENCES] > docs/results/masking.json
"""

import itertools
import json
import sys

import bahdanau_jax as bj
from bahdanau_jax import data

folder, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200
run = bj.load(folder)
pairs = data.pairs(run.config.data.test, run.config.data)
lines = [pair.source for pair in itertools.islice(pairs, count)]
study = bj.experiments.masking_study(run, lines)
print(json.dumps(study.to_json(), indent=1))
