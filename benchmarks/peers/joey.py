"""JoeyNMT behind JSON lines. The Python of JoeyNMT's own environment runs this file by its path;
nothing of this package is imported here but its neighbour `serving`, and nothing there imports
this.

    python joey.py train CONFIG [keep]  trains the model of a JoeyNMT configuration
    python joey.py serve CONFIG [keep]  translates: a line of stdin asks, a line of stdout answers

The first line, without a request, is {"versions", "device", "parameters"}. A request has "lines"
(tokens with spaces between them), "beam_size", "batch_size", "threads", "precision" (of autocast)
and "alpha". Its answer has "seconds", "cpu_seconds" and "lines". JoeyNMT's log goes to stderr. With
`keep` it reuses the memory that it frees, as ours does, which makes it faster.
"""

import json
import logging
import os
import sys
import time
from importlib import metadata
from pathlib import Path

import serving  # pyright: ignore[reportMissingImports]
import torch  # pyright: ignore[reportMissingImports]
from joeynmt import config, prediction, training  # pyright: ignore[reportMissingImports]


def train(path: str) -> None:
    settings = config.load_config(path)
    Path(settings["model_dir"]).mkdir(parents=True, exist_ok=True)
    training.train(rank=0, world_size=1, cfg=settings, skip_test=True)


def serve(path: str) -> None:
    serving.end_with_parent()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # so that stdout has only the answers

    def answer(content: dict) -> None:
        print(json.dumps(content), file=answers, flush=True)

    settings = config.parse_global_args(config.load_config(path), mode="translate")
    model, _, _, stream = prediction.prepare(settings, rank=0, mode="translate")
    answer(
        {
            "versions": {name: metadata.version(name) for name in ("joeynmt", "torch")},
            "device": settings.device.type,
            "parameters": sum(p.numel() for p in model.parameters()),
        }
    )
    for line in sys.stdin:
        answer(translate(settings, model, stream, json.loads(line)))


def translate(settings, model, stream, request: dict) -> dict:
    """Time one call of JoeyNMT's own `predict`, which makes the batches and returns the tokens."""
    torch.set_num_threads(request["threads"])
    search = settings.test._replace(
        batch_size=request["batch_size"],
        batch_type="sentence",
        beam_size=request["beam_size"],
        beam_alpha=request["alpha"],
        max_output_length=-1,  # 1.5 times the longest source of the batch
    )
    dtype = getattr(torch, request["precision"])
    rounded = {"device_type": settings.device.type, "enabled": True, "dtype": dtype}
    stream.reset_cache()
    for line in request["lines"]:
        stream.set_item(line)
    start, cpu = time.perf_counter(), time.process_time()
    with torch.inference_mode():
        _, _, lines, *_ = prediction.predict(
            model=model,
            data=stream,
            device=settings.device,
            n_gpu=settings.n_gpu,
            normalization="none",
            args=search,
            autocast=settings.autocast if dtype == torch.float32 else rounded,
        )
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"seconds": seconds, "cpu_seconds": cpu, "lines": lines}


if __name__ == "__main__":
    command, file, *keep = sys.argv[1:]
    if keep:
        serving.keep_memory()
    if command == "serve":  # otherwise it logs each call
        for name in logging.root.manager.loggerDict:
            if name.startswith("joeynmt"):
                logging.getLogger(name).setLevel(logging.ERROR)
    {"train": train, "serve": serve}[command](file)
