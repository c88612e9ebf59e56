"""Translates lines of text with the model of this folder; needs only jax and numpy.

    python translate.py < source.txt > translation.txt

In Python: `Translator(folder).translate(["The man sleeps ."])`.
"""

import argparse
import hashlib
import itertools
import json
import math
import os
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

FOLDER = Path(__file__).resolve().parent
FAULTS = (OSError, ValueError, LookupError, TypeError, AttributeError)  # of a damaged folder
DAMAGED = f"translate.py: {FOLDER} lacks a file or is damaged: export it again"


def described(folder):
    """config.json of a folder. Raises ValueError where another file is not as it was exported."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for name, digest in config["export"]["sha256"].items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
            raise ValueError(f"{name} is not as it was exported")
    return config


sys.path.insert(0, str(FOLDER))  # of the files below, and of flatbuffers, which JAX needs
try:
    CONFIG = described(FOLDER)  # before its files are imported
    import jax
    from beam import NORMALIZATIONS, Search
    from jax import export
    from text import EOS, Codec, windows
    from weights import read_safetensors
except ModuleNotFoundError as error:
    sys.exit(f"no module {error.name}: python -m pip install -r {FOLDER / 'requirements.txt'}")
except FAULTS as error:
    sys.exit(f"{DAMAGED} ({error})")


def boolean(text):
    """True or False of an option."""
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def number(text):
    """A finite number of an option."""
    if not math.isfinite(value := float(text)):
        raise ValueError
    return value


# Settings of the search, which are also options; their defaults are in config.json.
OPTIONS = {"beam_size": int, "length_normalization": str, "alpha": number, "coverage": number}
OPTIONS |= {"min_ratio": number, "max_ratio": number, "max_source": int, "batch_size": int}
OPTIONS |= {"shrink": boolean, "ban_unk": boolean}


def fault(config, settings):
    """What is wrong with the settings of a search, by option; "" where nothing is."""
    chosen = SimpleNamespace(**settings)
    if min(chosen.beam_size, chosen.batch_size, chosen.max_source) < 1:
        return "--beam-size, --batch-size and --max-source should be above 0"
    if not 0 < chosen.max_ratio <= 100 or not min(chosen.min_ratio, chosen.coverage) >= 0:
        return (
            "--max-ratio should be above 0 and at most 100, --min-ratio and --coverage at least 0"
        )
    if chosen.min_ratio >= chosen.max_ratio:
        return "--min-ratio should be below --max-ratio: no translation could end"
    if chosen.coverage and config["model"]["attention"] == "none":
        return "--coverage needs attention, which this model has not: leave it out"
    if chosen.length_normalization not in NORMALIZATIONS:
        return f"--length-normalization should be one of {', '.join(NORMALIZATIONS)}"
    return ""


class Translator:
    """The model of a folder with its search; keywords replace the settings in config.json.

    Raises ValueError for settings that the search does not have.
    """

    def __init__(self, folder=FOLDER, **settings):
        folder = Path(folder)
        config = CONFIG if folder == FOLDER else described(folder)
        if unknown := sorted(settings.keys() - OPTIONS.keys()):
            raise ValueError(f"no settings {', '.join(unknown)}; known: {', '.join(OPTIONS)}")
        settings = config["decoding"] | settings
        if wrong := fault(config, settings):
            raise ValueError(wrong)
        self.settings = SimpleNamespace(**settings)
        self.longest = config["export"]["longest_line"]
        flags = config["export"]["xla_flags"].get(metadata.version("jaxlib"), "")
        os.environ["XLA_FLAGS"] = f"{flags} {os.environ.get('XLA_FLAGS', '')}".strip()
        self.source, self.target = (Codec(folder, config["data"], s) for s in ("source", "target"))
        files = [folder / f"{name}.jaxexport" for name in ("prepare", "encode", "step")]
        prepare, encode, step = (
            jax.jit(export.deserialize(bytearray(file.read_bytes())).call) for file in files
        )
        params = jax.device_put(read_safetensors(folder / "model.safetensors"))
        self.search = Search(encode, step, params, prepare(params), self.settings)

    def translate(self, lines):
        """The best translation of each line; "" for an empty line or one that is too long."""
        if isinstance(lines, str):
            raise TypeError("lines should be a list of lines, not a text")
        lines = [list(self._parts(line)) for line in lines]
        parts = [ids for line in lines for ids in line]
        order = sorted(range(len(parts)), key=lambda i: -len(parts[i]))
        texts, size = {}, self.settings.batch_size
        for chosen in (order[at : at + size] for at in range(0, len(order), size)):
            best = self.search.best([parts[i] for i in chosen])
            texts |= zip(chosen, map(self.target.decode, best), strict=True)
        ordered = iter([texts[i] for i in range(len(parts))])
        return [" ".join(filter(None, itertools.islice(ordered, len(line)))) for line in lines]

    def _parts(self, line):
        """The ids of the parts of a line, EOS last: a long line is translated in parts."""
        is_long = len(line.encode("utf-8", "replace")) > self.longest["bytes"]
        *words, _ = [EOS] if is_long else self.source.encode(line)
        if is_long or len(words) > self.longest["tokens"]:
            print("translate.py: a line is too long; its output is empty", file=sys.stderr)
            return
        begins, most, at = self.source.begins_word(words), self.settings.max_source, 0
        while at < len(words):
            end = furthest = at + most
            if furthest < len(words):  # no word is cut that is not longer than a part
                end = next((i for i in range(furthest, at, -1) if begins[i]), furthest)
            yield [*words[at:end], EOS]
            at = end


def options():
    """The settings of the search from the command line."""
    parser = argparse.ArgumentParser(description="Translate lines of stdin to stdout.")
    for name, kind in OPTIONS.items():
        option, default = "--" + name.replace("_", "-"), CONFIG["decoding"][name]
        parser.add_argument(option, type=kind, default=default, help=f"default: {default}")
    chosen = vars(parser.parse_args())
    if wrong := fault(CONFIG, chosen):
        parser.error(wrong)
    return chosen


def main():
    """Read lines from stdin, and write a line for each to stdout: its translation."""
    try:
        translator = Translator(**options())
    except FAULTS as error:
        sys.exit(f"{DAMAGED} ({error})")
    if sys.stdin is None or sys.stdout is None:
        sys.exit("translate.py: stdin and stdout should be open")
    for lines in windows(sys.stdin.buffer, translator.longest["bytes"]):
        texts = [" ".join(text.splitlines()) + "\n" for text in translator.translate(lines)]
        sys.stdout.buffer.write("".join(texts).encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os._exit(141)  # the reader of a pipe closed it
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:  # such as a full disk
        sys.exit(f"translate.py: {error.strerror or error}")
