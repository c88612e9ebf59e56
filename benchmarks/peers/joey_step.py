"""JoeyNMT's recurrent model with Bahdanau attention, through its own classes of model, loss,
optimiser and clipper, on a batch of random words. JoeyNMT's own Python runs this file by its path.

    python joey_step.py '{"size": {...}, "settings": {...}}'

It differs from our model: its attention and its readout are as wide as its decoder, and its GRU is
PyTorch's. The greeting has the number of its parameters.
"""

import json
import logging
import sys
import time
from importlib import metadata
from types import SimpleNamespace

import serving  # pyright: ignore[reportMissingImports]
import torch  # pyright: ignore[reportMissingImports]
import torch_device  # pyright: ignore[reportMissingImports]
from joeynmt import batch, builders, model, vocabulary  # pyright: ignore[reportMissingImports]
from torch_device import DEVICE  # pyright: ignore[reportMissingImports]

SYMBOLS = {"unk": 0, "pad": 1, "bos": 2, "eos": 3}


def make_model(size: dict[str, int]):
    symbols = {f"{name}_token": f"<{name}>" for name in SYMBOLS}
    ids = {f"{name}_id": number for name, number in SYMBOLS.items()}
    special = SimpleNamespace(**symbols, **ids, sep_token=None, sep_id=None, lang_tags=[])
    words = vocabulary.Vocabulary([], special)
    added = [str(number) for number in range(size["V"] - len(SYMBOLS))]
    words._itos += added  # its own add_tokens is slow: it searches a list for every word
    words._stoi.update({word: i for i, word in enumerate(words._itos)})

    def part(**more):
        embeddings = {"embedding_dim": size["m"]}
        return {
            "type": "recurrent",
            "rnn_type": "gru",
            "hidden_size": size["n"],
            "embeddings": embeddings,
            "dropout": 0.0,
            **more,
        }

    config = {
        "encoder": part(bidirectional=True),
        "decoder": part(attention="bahdanau", input_feeding=True, init_hidden="bridge"),
    }
    made = model.build_model(config, src_vocab=words, trg_vocab=words)
    made.loss_function = ("crossentropy", 0.0)
    return made.to(DEVICE).train()


def make_batch(size: dict[str, int]):
    """A batch of random words of full length. EOS ends the target, and BOS is not counted."""
    rows, S, T = size["B"], size["S"], size["T"]
    generator = torch.Generator().manual_seed(1)
    first, last = len(SYMBOLS), size["V"]
    target = torch.randint(first, last, (rows, T + 1), generator=generator)
    target[:, 0], target[:, -1] = SYMBOLS["bos"], SYMBOLS["eos"]
    return batch.Batch(
        src=torch.randint(first, last, (rows, S), generator=generator),
        src_length=torch.full((rows,), S),
        src_prompt_mask=None,
        trg=target,
        trg_prompt_mask=None,
        indices=torch.arange(rows),
        device=torch.device(DEVICE),
        pad_index=SYMBOLS["pad"],
        eos_index=SYMBOLS["eos"],
        is_train=True,
    )


def main(given: dict) -> None:
    answers, settings, before = serving.Answers(), given["settings"], serving.resident()
    rounding = torch_device.prepare(settings)
    for name in logging.root.manager.loggerDict:
        logging.getLogger(name).setLevel(logging.ERROR)
    torch.manual_seed(1)
    network, words = make_model(given["size"]), make_batch(given["size"])
    clip = builders.build_gradient_clipper({"clip_grad_norm": 1.0, "clip_grad_val": None})
    recipe = {"optimizer": "adadelta", "learning_rate": 1.0}
    optimizer = builders.build_optimizer(recipe, network.parameters())

    def step() -> float:
        with rounding:
            loss, *_ = network(return_type="loss", **vars(words))
        loss.backward()
        clip(parameters=network.parameters())
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    start = time.perf_counter()
    first = step()
    answers.give(
        {
            "versions": {name: metadata.version(name) for name in ("joeynmt", "torch")},
            "device": torch_device.NAME,
            "parameters": sum(value.numel() for value in network.parameters()),
            "target_words": int(words.ntokens),
            "first_step_seconds": time.perf_counter() - start,
            "first_loss": first,
        }
    )
    stepping = serving.Stepping(step, torch_device.PEAK)
    memory = lambda: stepping.memory(before)  # noqa: E731
    answers.serve({"step": stepping.step, "memory": memory, "matrix": torch_device.matrix})


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
