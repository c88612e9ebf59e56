"""Writes the explorer: one HTML page in which a trained model runs, without a network.

The page holds the weights in 20 bits a number, the vocabularies, and the JavaScript of the folder
`browser`. Its Content-Security-Policy allows this script and this style alone, by their hashes.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from bahdanau_jax import model, run_folder
from bahdanau_jax.alignment import GoldFile
from bahdanau_jax.atomic import write_text
from bahdanau_jax.explorer import example_sentences, recorded_search
from bahdanau_jax.explorer.browser_text import codec_data, remarks
from bahdanau_jax.explorer.example_sentences import Sentence
from bahdanau_jax.explorer.packed_weights import pack
from bahdanau_jax.model import attention
from bahdanau_jax.reporting import say
from bahdanau_jax.trained import Run

LARGEST = 10_000_000  # parameters of a model whose weights are put into a page

# The JavaScript modules, each after those that it imports.
MODULES = (
    "tensor", "tape", "cells", "attention", "model", "weights",
    "moses", "vocabulary", "codec", "search", "analysis", "gradients", "engine",
    "elements", "colours", "gold", "page_state", "exports", "drawing",
    "matrix_view", "links_view", "step_view", "beam_view", "panel", "tour", "app",
)  # fmt: skip
# The import of a module, and the name that an export declares.
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?:async )?(?:function\*?|const|class) (\w+)", re.MULTILINE)


class Page(NamedTuple):
    """A page and the files that it fetches from its own server."""

    html: str  # the text of the page
    files: dict[str, bytes]  # by name; empty for a page of its own
    recorded: str  # why the page has recorded translations instead of the model; "" where it runs


def write_page(
    run: Run,
    output: Path,
    lines: Sequence[str] = (),
    *,
    references: Sequence[str] = (),
    gold: GoldFile | None = None,
    other: Run | None = None,
) -> Page:
    """Write one HTML file in which the model runs; the file appears whole.

    Above LARGEST parameters, and for a score of the user's own, it says so on stderr, and the page
    has the sentences with their recorded translations instead. Raises ValueError for an ensemble,
    and for such a model without sentences.

    >>> write_page(load("runs/quickstart"), Path("page.html"))
    >>> write_page(load("runs/quickstart"), Path("page.html"), ["The man sleeps ."])

    Args:
        lines: sentences that the page offers; by default some of the run's test corpus.
        references: their translations; an empty sequence: none.
        gold: links between the words of lines and references.
        other: a second run, or another checkpoint of the first, which the page shows beside it.
    """
    page = build_page([run] if other is None else [run, other], lines, references, gold)
    if page.recorded:
        say(f"{page.recorded}: the page has recorded translations instead of the model")
    write_text(Path(output), page.html)
    return page


def build_page(
    runs: Sequence[Run],
    lines: Sequence[str] = (),
    references: Sequence[str] = (),
    gold: GoldFile | None = None,
    served: bool = False,
) -> Page:
    """Return the page of one run or two; `served`: a server also has its `files`.

    A served page fetches the weights of large models, so these run too. Raises ValueError for an
    ensemble, for unequal numbers of lines and references, and for a model that cannot run in the
    page where there are no sentences to record.
    """
    for run in runs:
        if run.others:
            raise ValueError("an ensemble has no page of its own: name up to two of its runs")
    is_given = lines or references or gold
    sentences = example_sentences.given(lines, references, gold) if is_given else []
    sentences = sentences or example_sentences.of_test_corpus(runs[0])
    if runs[0].config.data.unescape:  # the page does not replace entities
        sentences = [*map(example_sentences.unescaped, sentences)]
    reasons = [_obstacle(run, served) for run in runs]
    recorded = "; ".join(filter(None, reasons))
    if recorded and not sentences:
        raise ValueError(f"{recorded}, and there are no sentences to record: give some")
    weights, files, models = [], {}, []
    names = _names(runs)
    for i, (run, reason) in enumerate(zip(runs, reasons, strict=True)):
        data = {"name": names[i], **_model_data(run, sentences, reason)}
        if not reason:
            packed = pack(run.params)
            data["manifest"] = packed.manifest
            is_large = served and model.count(run.params) > LARGEST
            data["weights"] = f"weights-{i}.bin" if is_large else ""
            if is_large:
                files[data["weights"]] = packed.data
            else:
                weights.append((f"weights-{i}", base64.b64encode(packed.data).decode("ascii")))
        models.append(data)
    texts = [{"text": s.text, "reference": s.reference} for s in sentences]
    content = {"models": models, "sentences": texts}
    return Page(_document(content, weights, bool(files)), files, recorded)


def _names(runs: Sequence[Run]) -> list[str]:
    """The names of runs in the page; two checkpoints of one run differ in their steps."""
    folders = [run.folder.absolute() for run in runs]
    if len({*folders}) < len(folders):
        folders = [
            folder.with_name(f"{folder.name}@{_updates(run)}")
            for folder, run in zip(folders, runs, strict=True)
        ]
    return run_folder.names(folders)


def _updates(run: Run) -> int | None:
    used = run.chosen.used if run.chosen else ()
    return used[0].step if used else None


def _obstacle(run: Run, served: bool) -> str:
    """Why a model does not run in the page; "" where it does."""
    name, size = run.folder.resolve().name, model.count(run.params)
    if run.config.model.attention not in attention.SCORES:
        return f"{name} has a score of your own, {run.config.model.attention}"
    if size > LARGEST and not served:
        return f"{name} has {size:,} parameters, and a page holds at most {LARGEST:,}"
    return ""


def _model_data(run: Run, sentences: Sequence[Sentence], reason: str) -> dict[str, Any]:
    config = run.config
    languages = config.data.source_language, config.data.target_language
    source, target = (
        codec_data(codec, language) for codec, language in zip(run.codecs, languages, strict=True)
    )
    return {
        "parameters": model.count(run.params),
        "updates": _updates(run),
        "config": _fields(config.model),
        "decoding": _fields(config.decoding),
        "source": source,
        "target": target,
        "remarks": [*remarks(run.codecs), *_search_remarks(run)],
        "gold": [example_sentences.gold_data(run, sentence) for sentence in sentences],
        "recorded": [recorded_search.record(run, s.text) for s in sentences] if reason else None,
        "reason": reason,
    }


def _search_remarks(run: Run) -> list[str]:
    """What the page does otherwise than Python in its search, one sentence each."""
    if run.config.decoding.method == "beam":
        return []
    return [
        f"{run.folder.resolve().name} draws its translations at random in Python (decoding.method "
        f"{run.config.decoding.method}); this page shows a beam search."
    ]


def _fields(section: Any) -> dict[str, Any]:
    return dict(vars(section))


def _document(content: Mapping[str, Any], weights: Sequence[tuple[str, str]], fetches: bool) -> str:
    folder = resources.files("bahdanau_jax.explorer").joinpath("browser")
    style = folder.joinpath("explorer.css").read_text(encoding="utf-8")
    modules = ((name, folder.joinpath(f"{name}.js")) for name in MODULES)
    code = script({name: path.read_text(encoding="utf-8") for name, path in modules})
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(code)}",
            f"style-src {_hash(style)}",
            "img-src blob: data:",
            "connect-src 'self'" if fetches else "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    parts = {
        "POLICY": html.escape(policy),
        "STYLE": style,
        "DATA": _json(content),
        "WEIGHTS": "".join(
            f'<script type="text/plain" id="{name}">{data}</script>\n' for name, data in weights
        ),
        "SCRIPT": code,
    }
    template = folder.joinpath("explorer.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{([A-Z]+)\}\}", lambda match: parts[match[1]], template)


def script(modules: Mapping[str, str]) -> str:
    """Join JavaScript modules into one, each in a scope of its own, in the order given.

    >>> print(script({"a": "export const x = 1;", "b": 'import { x } from "./a.js";\\nuse(x);'}))
    const modules = {};
    modules["a"] = (() => {
    const x = 1;
    return { x };
    })();
    modules["b"] = (() => {
    const { x } = modules["a"];
    use(x);
    return {  };
    })();
    """
    scopes = ["const modules = {};"]
    for name, code in modules.items():
        exported = ", ".join(EXPORT.findall(code))
        body = IMPORT.sub(r'const {\1} = modules["\2"];\n', code)
        body = re.sub(r"^export ", "", body, flags=re.MULTILINE).strip()
        scopes.append(f'modules["{name}"] = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();')
    return "\n".join(scopes)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(value: Any) -> str:
    """JSON that cannot end its element: < is written as an escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
