"""Align a text with gold links by eflomal, trained on the pairs of a run; JSON on stdout.

python docs/results/eflomal_links.py RUN_FOLDER EFLOMAL-ALIGN SOURCE TARGET GOLD [LEVEL] [CORPUS]

eflomal (Östling and Tiedemann 2016) reads the run's training pairs, or CORPUS, with the text behind
them, tokenised as for the run and in lower case. LEVEL is that of `bahdanau align` (word).
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import bahdanau_jax as bj
from bahdanau_jax import aligner, alignment, compression, data
from bahdanau_jax.report import aligned_corpus

folder, program, *files, gold = sys.argv[1:6]
level = sys.argv[6] if len(sys.argv) > 6 else "word"
run = bj.load(folder)
address = sys.argv[7] if len(sys.argv) > 7 else run.config.data.train


def lines_of(name: str) -> list[str]:
    with compression.OPENERS.get(Path(name).suffix, open)(name, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def tokens(codec: data.Codec, line: data.Segmented) -> list[str]:
    return codec.tokenize(line.text).lower().split()


text = aligner.segment(run.codecs, *map(lines_of, files), level)
sides = [[tokens(c, line) for line in side] for c, side in zip(run.codecs, text, strict=True)]
with tempfile.TemporaryDirectory() as temporary:
    begin = time.perf_counter()
    with (Path(temporary) / "input").open("w", encoding="utf-8") as file:
        count = 0
        for pair in (*aligned_corpus.tokens(run, address), *zip(*sides, strict=True)):
            if all(pair):
                file.write(" ||| ".join(" ".join(side).lower() for side in pair) + "\n")
                count += 1
    command = [program, "--overwrite", "-i", "input", "-f", "forward", "-r", "reverse"]
    subprocess.run(command, cwd=temporary, check=True, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - begin
    written = [
        (Path(temporary) / name).read_text().splitlines()[-len(sides[0]) :]
        for name in ("forward", "reverse")
    ]

summary = aligned_corpus.Summary(alignment.gold.read(lines_of(gold), gold))
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
    summary.add(
        aligner.Aligned(source.words, target.words, alpha, None),
        {"forward": found[0], "backward": found[1], **joined},
    )
print(json.dumps({"pairs": count, "seconds": seconds, **summary.table("forward")}, indent=1))
