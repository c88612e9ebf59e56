"""Translates lines of text with the model of this folder; needs only jax and numpy.

    python translate.py < source.txt > translation.txt

In Python: `Translator(folder).translate(["The man sleeps ."])`.
"""

import hashlib
import itertools
import json
import os
import sys
from importlib import metadata
from pathlib import Path

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
    from beam import Search
    from jax import export
    from search_settings import chosen, options
    from text import EOS, Codec, parts, windows
    from weights import read_safetensors
except ModuleNotFoundError as error:
    sys.exit(f"no module {error.name}: python -m pip install -r {FOLDER / 'requirements.txt'}")
except FAULTS as error:
    sys.exit(f"{DAMAGED} ({error})")


class Translator:
    """The model of a folder with its search; keywords replace the settings in config.json.

    Raises ValueError for settings that the search does not have.
    """

    def __init__(self, folder=FOLDER, **settings):
        folder = Path(folder)
        config = CONFIG if folder == FOLDER else described(folder)
        self.settings = chosen(config, settings)
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
            say("a line is too long; its output is empty")
            return
        for part in parts(words, self.source.begins_word(words), self.settings.max_source):
            yield [*part, EOS]


def say(text):
    """Write a line to stderr, if it is open; `print` would take stdout in its place."""
    if sys.stderr is not None:
        print(f"translate.py: {text}", file=sys.stderr, flush=True)


def main():
    """Read lines from stdin, and write a line for each to stdout: its translation."""
    try:
        translator = Translator(**options(CONFIG))
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
        try:
            say(error.strerror or error)
        finally:
            os._exit(1)  # Python would try once more to write what is left
