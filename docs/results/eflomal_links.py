"""Align a text with gold links by eflomal, trained on the pairs of a run; JSON on stdout.

python docs/results/eflomal_links.py RUN_FOLDER EFLOMAL-ALIGN SOURCE TARGET GOLD [LEVEL] [CORPUS]

eflomal (Östling and Tiedemann 2016) reads the run's training pairs, or CORPUS, and behind them the
text itself, tokenised as for the run and in lower case. It learns from both; a pair with a blank
side is left out. LEVEL is that of `bahdanau align` (word).
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import bahdanau_jax as bj
from bahdanau_jax import aligner, alignment, data
from bahdanau_jax.cli import lines
from bahdanau_jax.pairing import check_equal_counts
from bahdanau_jax.report import aligned_corpus

folder, program, *files, gold = sys.argv[1:6]
level = sys.argv[6] if len(sys.argv) > 6 else "word"
run = bj.load(folder)
address = sys.argv[7] if len(sys.argv) > 7 else run.config.data.train


texts = [lines.read_all(Path(name)) for name in files]
check_equal_counts("source lines", texts[0], "target lines", texts[1])
text = aligner.segment(run.codecs, *texts, level)
sides = [
    [codec.tokenize(line.text).split() for line in side]
    for codec, side in zip(run.codecs, text, strict=True)
]
asked = [row for row, pair in enumerate(zip(*sides, strict=True)) if all(pair)]
with tempfile.TemporaryDirectory() as temporary:
    begin, count = time.perf_counter(), 0
    with (Path(temporary) / "input").open("w", encoding="utf-8") as file:
        own = ((sides[0][row], sides[1][row]) for row in asked)
        for pair in itertools.chain(aligned_corpus.tokens(run, address), own):
            if all(pair):
                file.write(" ||| ".join(" ".join(side).lower() for side in pair) + "\n")
                count += 1
    program = str(Path(program).absolute()) if os.sep in program else program
    command = [program, "--overwrite", "-i", "input", "-f", "forward", "-r", "reverse"]
    subprocess.run(command, cwd=temporary, check=True, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - begin
    written = []
    for name in ("forward", "reverse"):
        answers = (Path(temporary) / name).read_text().splitlines()[count - len(asked) :]
        links_of = dict(zip(asked, answers, strict=True))
        written.append([links_of.get(row, "") for row in range(len(sides[0]))])

summary = aligned_corpus.Summary(alignment.gold.read(lines.read_all(Path(gold)), gold))
for source, target, *pharaoh in zip(*text, *written, strict=True):
    members = [
        data.overlaps(line.spans, data.token_spans(codec, line.text))[:-1, :-1]
        for codec, line in zip(run.codecs, (source, target), strict=True)
    ]
    found = []
    for links in map(str.split, pharaoh):
        matrix = np.zeros([side.shape[1] for side in members], bool)
        for link in links:
            matrix[tuple(map(int, link.split("-")))] = True
        found.append(frozenset(zip(*np.nonzero(members[0] @ matrix @ members[1].T), strict=True)))
    joined = {name: join(*found) for name, join in alignment.SYMMETRIZATIONS.items()}
    size = len(source.words), len(target.words)
    alpha = np.zeros((size[1] + 1, size[0] + 1))
    aligned = aligner.Aligned(source.words, target.words, alpha, None)
    summary.add(
        aligned_corpus.Pair(aligned, None),
        {"forward": found[0], "backward": found[1], **joined},
    )
scores = summary.table("forward")
names = ("sentences", "without_gold", "AER", "precision", "recall", "ways")
report = {"corpus": address, "pairs": count, "seconds": seconds}
print(json.dumps(report | {name: scores[name] for name in names if name in scores}, indent=1))
