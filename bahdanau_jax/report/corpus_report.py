"""Reports the statistics of a prepared corpus, and exports its sentences as text files."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bahdanau_jax import data, figures
from bahdanau_jax.alignment import format_pharaoh
from bahdanau_jax.atomic import replaced_file
from bahdanau_jax.batch import SIDES
from bahdanau_jax.config import DataConfig
from bahdanau_jax.figures import save
from bahdanau_jax.run_folder import REPORT

SPLITS = ("train", "dev", "test")


def write(statistics: dict[str, Any], workdir: Path) -> str:
    """Draw WORKDIR/report/lengths.svg and .png; return a table of `run.prepare`'s result."""
    folder = Path(workdir) / REPORT
    folder.mkdir(exist_ok=True)
    picture = figures.lengths(_sentences(statistics))
    for suffix in ("svg", "png"):
        save(picture, folder / f"lengths.{suffix}")
    rows = [
        *_pairs(statistics),
        ("of all kept pairs", *SIDES),
        *_sides(statistics),
        *_batches(statistics),
    ]
    return "\n".join([*_aligned(rows), f"lengths drawn in {folder / 'lengths.svg'}"])


def _pairs(counts: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield "pairs read", f"{counts['read']:,}"
    for reason, number in counts["dropped"].items():
        if number:
            yield f"dropped, {data.DROP_REASONS[reason].words}", f"{number:,}"
    yield "kept", f"{counts['kept']:,}"
    if len(counts["corpora"]) > 1:
        for number, kept in enumerate(counts["corpora"], start=1):
            yield f"kept of corpus {number}", f"{kept:,}"
    if counts["encodings"] > 1:
        yield "encodings of each", f"{counts['encodings']}"


def _sides(counts: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    def row(name: str, values: dict[str, Any], form: str = ",") -> tuple[str, ...]:
        return (name, *(format(values[side], form) for side in SIDES))

    yield row("words, tokenised", counts["words"])
    if None not in counts["types"].values():
        yield row("different ones (types)", counts["types"])
    yield row("entries of the vocabulary", counts["vocabulary"])
    several = counts["encodings"] > 1
    tokens = {side: round(counts["tokens"][side] / counts["encodings"]) for side in SIDES}
    yield row("tokens in it" + ", mean of the encodings" * several, tokens)
    unknown = counts["unk_rate"]
    yield row("covered by the vocabulary", {side: 1 - unknown[side] for side in SIDES}, ".2%")
    yield row("unknown (UNK)", unknown, ".2%")
    for name, summary in _lengths(counts["lengths"]).items():
        yield row(f"tokens a sentence, {name}", summary, ".1f" if name == "mean" else ",")


def _sentences(counts: dict[str, Any]) -> dict[str, list[tuple[int, float]]]:
    """The histograms of lengths with a count of 1 for a pair, which its encodings share."""
    return {
        side: [(length, count / counts["encodings"]) for length, count in histogram]
        for side, histogram in counts["lengths"].items()
    }


def _lengths(histograms: dict[str, list[list[int]]]) -> dict[str, dict[str, float]]:
    summaries: dict[str, dict[str, float]] = {"mean": {}, "median": {}, "longest": {}}
    for side, histogram in histograms.items():
        total = sum(count for _, count in histogram)
        summaries["mean"][side] = sum(n * count for n, count in histogram) / total
        summaries["longest"][side] = histogram[-1][0]
        before = 0
        for length, count in histogram:
            before += count
            if 2 * before >= total:
                summaries["median"][side] = length
                break
    return summaries


def _batches(counts: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield ("",)
    yield "pairs an epoch", f"{counts['epoch']['pairs']:,}"
    yield "tokens an epoch", *(f"{counts['epoch']['tokens'][side]:,}" for side in SIDES)
    yield "batches an epoch", f"{counts['steps']:,}"
    yield "padded shapes, source by target", ", ".join(f"{s}×{t}" for s, t in counts["shapes"])
    yield "padding in an epoch's batches", f"{counts['padding']:.1%}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Lines with left-aligned names and right-aligned numbers, in columns of one width."""
    rows = list(rows)
    first = max(len(row[0]) for row in rows)
    width = max(len(cell) for row in rows if len(row) != 2 or "×" not in row[1] for cell in row[1:])
    for name, *cells in rows:
        yield "  ".join([name.ljust(first), *(cell.rjust(width) for cell in cells)]).rstrip()


def export(config: DataConfig, folder: Path) -> list[Path]:
    """Write train, dev and test as a text file for each language: FOLDER/train.en, train.fr, ...

    A corpus with gold alignments also has its tokens, with single spaces, in train.tokens.en and
    train.tokens.fr, and its links in train.pharaoh, a line for each sentence: `i-j` is a sure link,
    `i?j` a possible one, and tokens count from 0. Returns the paths.

    Raises ValueError and OSError for a faulty corpus or folder. Raises ValueError where both
    languages are the same, because both sides would have the same file, where a file of a corpus
    would be replaced, and where tokens or links of other sentences lie beside text that is written.
    """
    languages = config.source_language, config.target_language
    if len(set(languages)) == 1:
        raise ValueError(
            f"data.source_language and data.target_language are both {languages[0]}, and each "
            "needs a file of its own: give them different names to export text"
        )
    _keep_sources(config, folder, languages)
    folder.mkdir(parents=True, exist_ok=True)
    parts: list[tuple[Sequence[Path], Iterable[Sequence[str]]]] = []
    for split in SPLITS:
        if spec := getattr(config, split):
            corpora = [corpus.address for corpus in data.corpora(spec)]
            rows: Iterable[Sequence[str]] = data.pairs(spec, config)
            paths = [folder / f"{split}.{language}" for language in languages]
            gold = [folder / f"{split}.tokens.{language}" for language in languages]
            gold.append(folder / f"{split}.pharaoh")
            if all(map(data.is_aligned, corpora)):
                aligned = _aligned_lines(corpora, config)
                rows = (pair + links for pair, links in zip(rows, aligned, strict=True))
                paths += gold
            else:
                _expect_none(gold, spec)
            parts.append((paths, rows))
    for paths, rows in parts:
        _write_columns(paths, rows)
    return [path for paths, _ in parts for path in paths]


def _expect_none(gold: Sequence[Path], spec: str) -> None:
    """Raise ValueError for tokens and links that would lie beside text of other sentences."""
    for path in filter(Path.exists, gold):
        raise ValueError(
            f"{path} is not of {spec}, which has no gold alignments: remove it, or export to "
            "another folder"
        )


def _keep_sources(config: DataConfig, folder: Path, languages: Sequence[str]) -> None:
    """Raise ValueError where a file to write is one of those that the corpora are read from."""
    endings = [*languages, *(f"tokens.{each}" for each in languages), "pharaoh"]
    written = {folder / f"{split}.{ending}" for split in SPLITS for ending in endings}
    for spec in filter(None, (getattr(config, split) for split in SPLITS)):
        for path in (path for corpus in data.open_corpora(spec, config) for path in corpus.files):
            if any(path.exists() and each.exists() and path.samefile(each) for each in written):
                raise ValueError(f"{path} is text of a corpus: export to another folder")


def _aligned_lines(corpora: Sequence[str], config: DataConfig) -> Iterator[tuple[str, str, str]]:
    """The tokens of both sides and the gold links of each pair."""
    for address in corpora:
        for pair in data.aligned_pairs(address, config):
            links = format_pharaoh(pair.sure, pair.possible)
            yield " ".join(pair.source), " ".join(pair.target), links


def _write_columns(paths: Sequence[Path], rows: Iterable[Sequence[str]]) -> None:
    """Write each row as a line, one cell to each file. The files appear when all are complete."""
    with ExitStack() as stack:
        drafts = [stack.enter_context(replaced_file(path)) for path in paths]
        files = [stack.enter_context(draft.open("w", encoding="utf-8")) for draft in drafts]
        for row in rows:
            for file, line in zip(files, row, strict=True):
                file.write(" ".join(line.splitlines()) + "\n")
