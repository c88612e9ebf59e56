"""TFDS corpora: writing, reading, errors, and preparation from archives of a local server."""

import dataclasses
import gzip
import io
import json
import re
import resource
import socket
import tarfile
import tempfile
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import write_tfds
from bahdanau_jax.data.sources import tfds, tfds_download
from bahdanau_jax.data.sources.addresses import aligned_pairs, open_corpora, pairs
from tests import small

PAIRS = [(f"word {n}", f"mot {n} œ") for n in range(23)]


def write(data_dir: Path, name="letters", **splits) -> Path:
    """A dataset of these pairs, through the builder that `write_tfds` uses."""
    from bahdanau_jax.data.sources.tfds_writer import ParallelText

    builder = ParallelText(
        data_dir=data_dir,
        name=name,
        version="1.0.0",
        description="",
        languages=("en", "fr"),
        splits={split: lambda pairs=pairs: pairs for split, pairs in splits.items()},
    )
    builder.download_and_prepare(download_dir=data_dir / "downloads")
    return Path(builder.data_dir)


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    """A dataset of three shards, two splits and both sides' languages."""
    from bahdanau_jax.data.sources import tfds_writer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tfds_writer, "SHARD_PAIRS", 10)
        return write(tmp_path_factory.mktemp("letters"), train=PAIRS, test=PAIRS[:2])


def test_tfds_leaves_no_folder_of_its_bucket(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    config = DataConfig(train="builtin:copy/train?pairs=3", dev="", test="")
    write_tfds(config, tmp_path / "datasets", "copied")
    assert not [*(tmp_path / "temporary").iterdir()]


def read(spec: str, **settings) -> list[tuple[str, str]]:
    return [tuple(pair) for pair in pairs(f"tfds:{spec}", DataConfig(**settings))]


def fault(spec: str, kind=ValueError, **settings) -> str:
    with pytest.raises(kind) as caught:
        read(spec, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Written and read back


def test_a_configuration_becomes_a_dataset(tmp_path, capsys):
    (tmp_path / "a.en").write_text("".join(f"{en}\n" for en, _ in PAIRS), encoding="utf-8")
    (tmp_path / "a.fr").write_text("".join(f"{fr}\n" for _, fr in PAIRS), encoding="utf-8")
    config = DataConfig(
        train="text:a.en,a.fr", dev="builtin:copy/dev?pairs=3", test="", root=str(tmp_path)
    )
    folder = write_tfds(config, tmp_path / "tfds", "letters", "2.0.1")
    assert folder == tmp_path / "tfds" / "letters" / "2.0.1"
    assert capsys.readouterr().out == ""
    assert read(str(folder)) == PAIRS
    assert read(f"{folder}?split=validation") == list(pairs(config.dev, config))
    assert "no split" in fault(f"{folder}?split=test")
    assert read("letters?data_dir=" + str(tmp_path / "tfds")) == PAIRS
    assert read("letters:2.0.1?data_dir=" + str(tmp_path / "tfds")) == PAIRS
    with pytest.raises(FileExistsError, match=r"2\.0\.1 exists already"):
        write_tfds(config, tmp_path / "tfds", "letters", "2.0.1")


def test_others_read_it_with_tfds_alone(letters):
    import tensorflow_datasets

    builder = tensorflow_datasets.builder_from_directory(letters)
    assert builder.info.supervised_keys == ("en", "fr")
    assert isinstance(builder.info.features, tensorflow_datasets.features.Translation)
    examples = builder.as_data_source("train")
    assert [(one["en"].decode(), one["fr"].decode()) for one in examples] == PAIRS
    assert len(list(letters.glob("letters-train.array_record-*-of-00003"))) == 3


@given(
    texts=st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=30),
    shard=st.integers(1, 30),
    chunk=st.integers(1, 30),
)
@settings(max_examples=20)
def test_any_text_comes_back_in_order(tmp_path_factory, texts, shard, chunk):
    from bahdanau_jax.data.sources import tfds_writer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tfds_writer, "SHARD_PAIRS", shard)
        patch.setattr(tfds, "CHUNK", chunk)
        folder = write(tmp_path_factory.mktemp("any"), train=texts)
        assert read(str(folder)) == texts


@pytest.mark.parametrize(
    ("config", "name", "version", "message"),
    [
        (DataConfig(), "Letters", "1.0.0", "the name 'Letters' of a dataset"),
        (DataConfig(), "letters", "1.0", "the version '1.0' of a dataset"),
        (DataConfig(target_language="en"), "letters", "1.0.0", "are both 'en'"),
        (DataConfig(train="text:a,b"), "letters", "1.0.0", r"no file (.*/)?a "),
    ],
)
def test_what_cannot_be_written(tmp_path, config, name, version, message):
    with pytest.raises((ValueError, OSError), match=message):
        write_tfds(config, tmp_path, name, version)
    assert not list(tmp_path.glob("letters/1*"))


# Found and refused


@pytest.mark.parametrize(
    ("split", "part"),
    [
        ("train", slice(None)),
        ("train[:2]", slice(2)),
        ("train[9:12]", slice(9, 12)),
        ("train[-3:]", slice(-3, None)),
        ("train[:50%]", slice(12)),
    ],
)
def test_splits_are_tfdss(letters, split, part):
    assert read(f"{letters}?split={split}") == PAIRS[part]


def test_splits_are_added(letters):
    assert read(f"{letters}?split=test+train[21:]") == PAIRS[:2] + PAIRS[21:]
    assert sorted(read(f"{letters}?split=all")) == sorted(PAIRS + PAIRS[:2])
    assert "is empty" in fault(f"{letters}?split=train[:0]")
    for reversed_ in ("train[-3:-9]", "train[9:3]"):
        told = fault(f"{letters}?split={reversed_}")
        assert f"split '{reversed_}' should be written like" in told


def test_the_files_of_a_corpus(letters):
    (opened,) = open_corpora(f"tfds:{letters}?split=train[9:12]", DataConfig())
    assert [path.name for path in opened.files] == ["dataset_info.json"] + [
        f"letters-train.array_record-0000{shard}-of-00003" for shard in (0, 1)
    ]


def test_a_relative_folder_lies_in_the_root(letters, monkeypatch):
    assert read("letters/1.0.0", root=str(letters.parents[1])) == PAIRS
    monkeypatch.chdir(letters.parent)
    assert read("./1.0.0") == PAIRS


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("?split=valid", "no split of tfds:.* 'valid'; known: all, test, train"),
        ("?split=train[x]", "should be written like train"),
        ("?split=train[3]", "should be written like train"),
        ("?split=train[3:2]", "should be written like train"),
        ("?split=test + train[2:1]", "should be written like train"),
        ("?split=train[75%:50%]", "should be written like train"),
        ("?split=train[-2:-3]", "should be written like train"),
        ("?split=train[:2]+nope", "no split of tfds:.* 'nope'"),
        ("?spilt=test", "no option of tfds: corpora, 'spilt'; known: data_dir, split .*'split'"),
        ("?split=", "split should have a value"),
        ("?data_dir=here", "names a folder: leave out data_dir"),
        ("/nowhere", "no dataset in .*nowhere"),
        ("/..", "no dataset in .* there is one in .*1.0.0"),
    ],
)
def test_faults_of_a_specification(letters, spec, message):
    assert re.search(message, fault(f"{letters}{spec}"))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("wmt41_translate/fr-en", "TFDS knows no dataset 'wmt41_translate' .*did you mean 'wmt"),
        ("wmt14_translate/fr-eng", "no configuration of tfds:wmt14_translate 'fr-eng'.*'fr-en'"),
        ("wmt14_translate", "should name one of cs-en, de-en, fr-en"),
        ("wmt14_translate/fr-en:9.9.9", "9.9.9"),
        ("mtnt/fr en", "should be tfds:NAME"),
        ("", "should be tfds:NAME"),
    ],
)
def test_unknown_names(tmp_path, spec, message, capsys):
    assert re.search(message, fault(f"{spec}?data_dir={tmp_path}"))
    assert capsys.readouterr().out == ""


def test_a_language_that_is_not_there(letters):
    message = fault(str(letters), target_language="de")
    assert re.search("no text feature 'de', data.target_language; .*: en, fr", message)
    assert read(str(letters), source_language="fr", target_language="en")[0] == PAIRS[0][::-1]


def test_no_gold_alignments(letters):
    with pytest.raises(ValueError, match="no gold alignments"):
        aligned_pairs(f"tfds:{letters}", DataConfig())


def test_invalid_utf8_names_the_example(tmp_path):
    folder = write(tmp_path, train=[("fine", "bien"), ("na\xefve".encode("latin-1"), "naïf")])
    message = fault(str(folder))
    assert re.search(r"1\.0\.0, split train, example 2: not valid UTF-8 \(byte 3", message)


def test_another_format_is_refused(tmp_path):
    folder = write(tmp_path, train=PAIRS)
    info = folder / "dataset_info.json"
    info.write_text(info.read_text().replace("array_record", "tfrecord"))
    assert re.search("is stored as tfrecord, but array_record is needed", fault(str(folder)))


@pytest.mark.parametrize("damage", ["{", '{"name": 3}', '{"name": "letters"}'])
def test_a_damaged_description(tmp_path, damage):
    folder = write(tmp_path, train=PAIRS)
    (folder / "dataset_info.json").write_text(damage)
    assert re.search("is damaged|stored as", fault(str(folder)))


def test_a_dataset_that_names_code_is_refused(tmp_path, monkeypatch):
    """TFDS would import the module of a class that it does not know."""
    folder = write(tmp_path, train=PAIRS)
    features = folder / "features.json"
    known = json.loads(features.read_text())["pythonClassName"]
    features.write_text(features.read_text().replace(known, "code_of_others.Feature"))
    (tmp_path / "code_of_others.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(tmp_path)
    message = fault(str(folder))
    assert "is damaged: its feature code_of_others.Feature is code of another package" in message


def test_a_folder_that_is_not_whole(tmp_path):
    folder = write(tmp_path, train=PAIRS)
    next(folder.glob("*.array_record-*")).unlink()
    assert re.search("is incomplete, it has no letters-train.array_record", fault(str(folder)))
    copied = tmp_path / "wmt14_paper" / "fr-en" / "1.0.0"
    copied.mkdir(parents=True)
    message = fault(f"wmt14_paper/fr-en?data_dir={tmp_path}")
    assert re.search("fr-en/1.0.0 is incomplete, it has no dataset_info.json", message)


@pytest.mark.parametrize("damage", [lambda raw: raw[:-1], lambda raw: raw[::-1]])
def test_damaged_records(tmp_path, damage):
    folder = write(tmp_path, train=PAIRS)
    records = next(folder.glob("*.array_record-*"))
    records.write_bytes(damage(records.read_bytes()))
    assert re.search("1.0.0 is damaged at example 1 of train", fault(str(folder)))


def test_a_wrong_language_is_known_before_the_download(tmp_path, monkeypatch):
    monkeypatch.setattr(tfds_download, "prepare", None)
    message = fault(f"wmt14_paper/fr-en?data_dir={tmp_path}", target_language="de")
    assert "no text feature 'de'" in message


# Without a network


def redirect(monkeypatch, port: int) -> None:
    """Downloads of WMT archives go to a server on this machine."""
    from tensorflow_datasets.translate import wmt

    official = wmt.SubDataset.get_url
    monkeypatch.setattr(
        wmt.SubDataset,
        "get_url",
        lambda self, source: [
            f"http://127.0.0.1:{port}{urlsplit(url).path}" for url in official(self, source)
        ],
    )


@pytest.mark.parametrize("answers", ["refused", "silent"])
def test_no_network_is_known_within_seconds(tmp_path, monkeypatch, answers, capsys):
    monkeypatch.setattr(tfds_download, "ANSWER_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        redirect(monkeypatch, server.getsockname()[1])
        if answers == "refused":
            server.close()
        began = time.monotonic()
        message = fault(f"wmt14_paper/fr-en?data_dir={tmp_path}", OSError)
    assert time.monotonic() - began < 60  # the retries of TensorFlow Datasets last minutes
    assert re.search(r"no network to download it \(127.0.0.1:\d+: .*TFDS_DATA_DIR.* text:", message)
    assert not list(tmp_path.glob("wmt14_paper/fr-en/1*"))
    assert capsys.readouterr().out == ""


def test_a_name_server_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(tfds_download, "ANSWER_SECONDS", 0.1)
    answer = threading.Event()
    monkeypatch.setattr(tfds_download, "_ask", lambda url: answer.wait(20))
    assert "no answer in 0.1 seconds" in tfds_download._fault("http://example.org/a.tgz")
    answer.set()


def test_an_answer_that_is_not_http():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            client, _ = server.accept()
            with client:
                client.recv(1000)
                client.sendall(b"SSH-2.0-OpenSSH\r\n")

        threading.Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/a.tgz"
        assert tfds_download._fault(url) == "no HTTP answer (BadStatusLine)"


def test_a_package_that_preparing_needs(tmp_path):
    def download_and_prepare(**_):
        raise ImportError("no such package", name="apache_beam")

    builder = SimpleNamespace(download_and_prepare=download_and_prepare, data_dir_root=tmp_path)
    with pytest.raises(ValueError, match=r"apache_beam is needed: pip install 'bahdanau-jax\[pre"):
        tfds_download.prepare(builder, "tfds:beamed")


def test_more_open_files_than_the_limit(tmp_path):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, limit[1]))
        for n in range(200):
            opened.append(tfds_download._open(tmp_path / str(n), "wb"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        for file in opened:
            file.close()
    assert len(opened) == 200


# The whole way from the archives of WMT 2014

NOUNS = ["chat", "chien", "oiseau", "poisson", "cheval", "loup", "ours", "lion"]
SETS = {
    "europarl": [(f"Le {noun} dort.", f"The {noun} sleeps.") for noun in NOUNS],
    "commoncrawl": [(f"Un {noun} à l'œuvre", f"A {noun} at work") for noun in NOUNS],
    "un": [(f"{noun} nº {n}", f"{noun} No. {n}") for n, noun in enumerate(NOUNS)],
    "news": [(f"{noun} !", f"{noun}!") for noun in NOUNS],
    "giga": [(f"Deux {noun}s", f"Two {noun}s") for noun in NOUNS],
    "2012": [("Bonjour.", "Hello."), ("", "Only one side."), ("Au revoir.", "Goodbye.")],
    "2013": [("Merci.", "Thank you.")],
    "2014": [("« R&D » &lt;", '"R&D" &lt;'), ("Fin.", "The end.")],
}
TRAIN = [pair for name in ("europarl", "commoncrawl", "un", "news", "giga") for pair in SETS[name]]
SIDES = {"fr": 0, "en": 1}


def plain(name: str, side: int) -> bytes:
    return "".join(f"{pair[side]}\n" for pair in SETS[name]).encode()


def sgm(name: str, side: int) -> bytes:
    escaped = [pair[side].replace("&", "&amp;") for pair in SETS[name]]
    lines = [f'<seg id="{n}">{text}</seg>\n' for n, text in enumerate(escaped, 1)]
    return f'<srcset setid="newstest{name}">\n<p>\n{"".join(lines)}</p>\n</srcset>\n'.encode()


def archives(folder: Path) -> None:
    """The archives under their official names, with the official names inside."""

    def write(name: str, mode: str, **members) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, mode) as archive:
            for member, content in members.items():
                entry = tarfile.TarInfo(member)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))

    def both(form: str, name: str, encode=plain) -> dict[str, bytes]:
        return {form.format(code): encode(name, side) for code, side in SIDES.items()}

    europarl = {"training/europarl-v7.de-en.de": b"Unrelated.\n"}
    europarl |= both("training/europarl-v7.fr-en.{}", "europarl")
    write("wmt13/training-parallel-europarl-v7.tgz", "w:gz", **europarl)
    crawl = both("commoncrawl.fr-en.{}", "commoncrawl")
    write("wmt13/training-parallel-commoncrawl.tgz", "w:gz", **crawl)
    write("wmt13/training-parallel-un.tgz", "w:gz", **both("un/undoc.2000.fr-en.{}", "un"))
    news = both("training/news-commentary-v9.fr-en.{}", "news")
    write("wmt14/training-parallel-nc-v9.tgz", "w:gz", **news)
    giga = both("giga-fren.release2.fixed.{}.gz", "giga", lambda *of: gzip.compress(plain(*of)))
    write("wmt10/training-giga-fren.tar", "w", **giga)
    dev = both("dev/newstest2012.{}", "2012") | both("dev/newstest2013.{}", "2013")
    dev["dev/newstest2014-fren-src.fr.sgm"] = sgm("2014", SIDES["fr"])
    dev["dev/newstest2014-fren-ref.en.sgm"] = sgm("2014", SIDES["en"])
    write("wmt19/translation-task/dev.tgz", "w:gz", **dev)


@pytest.fixture(params=[False, True], ids=["without tensorflow", "with tensorflow"])
def tensorflow(request, monkeypatch):
    """Whether TFDS may use TensorFlow where it asks for it."""
    if request.param:
        pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
        pytest.importorskip("importlib_resources", reason="importlib_resources is not installed")
    else:
        monkeypatch.setattr(tfds_download, "_installed", lambda package: False)


class Handler(SimpleHTTPRequestHandler):
    """A handler that serves files, and only half of those in `cut`."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path not in self.server.cut:
            return super().do_GET()
        content = Path(self.translate_path(self.path)).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])


@pytest.fixture
def server(tmp_path, monkeypatch):
    """The archives of WMT 2014, as small as can be, where TFDS looks for them."""
    folder = tmp_path / "www"
    archives(folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as server:
        server.cut = set()
        redirect(monkeypatch, server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_wmt14_from_archives_to_a_trained_model(tmp_path, monkeypatch, server, tensorflow, capsys):
    from tensorflow_datasets.core import shuffle

    monkeypatch.setattr(shuffle, "MAX_MEM_BUFFER_SIZE", 100)  # so that it sorts on disk
    place = f"data_dir={tmp_path / 'tfds'}"
    french = {"source_language": "fr", "target_language": "en"}
    spec = f"wmt14_paper/fr-en?{place}"
    (tmp_path / "tfds" / "wmt14_paper" / "fr-en" / "incomplete.XYZ_1.0.0").mkdir(parents=True)
    got = read(spec, **french)
    assert sorted(got) == sorted(TRAIN)
    assert sorted(read(f"{spec}&split=validation", **french)) == [
        ("Au revoir.", "Goodbye."),
        ("Bonjour.", "Hello."),
        ("Merci.", "Thank you."),
    ]
    assert sorted(read(f"{spec}&split=test", **french)) == sorted(SETS["2014"])
    server.shutdown()  # a prepared set needs no server, and has the same order
    assert read(spec, **french) == got
    assert read(spec) == [pair[::-1] for pair in got]

    sets = dict(zip(("train", "dev", "test"), ("train", "validation", "test"), strict=True))
    config = dataclasses.replace(
        small.config,
        data=DataConfig(
            **{field: f"tfds:{spec}&split={split}" for field, split in sets.items()},
            **french,
            batch_size=8,
            shapes=1,
        ),
        training=dataclasses.replace(small.config.training, steps=4, evaluate_every=4),
    )
    from bahdanau_jax import run

    trained = run.train(config, tmp_path / "run")
    assert trained.translate(["Le chat dort."])
    stores = [path for path in (tmp_path / "run" / "store").iterdir() if path.is_dir()]
    statistics = json.loads((stores[0] / "statistics.json").read_text())
    assert len(stores) == 1
    assert statistics["kept"] == len(TRAIN)
    assert capsys.readouterr().out == ""


def test_tfdss_own_wmt14_from_the_same_archives(tmp_path, server, tensorflow):
    spec = f"wmt14_translate/fr-en?data_dir={tmp_path / 'tfds'}"
    french = {"source_language": "fr", "target_language": "en"}
    assert sorted(read(spec, **french)) == sorted(TRAIN)
    assert read(f"{spec}&split=validation", **french) == SETS["2013"]


def test_a_download_that_was_cut_is_not_taken_as_whole(tmp_path, server):
    spec = f"wmt14_paper/fr-en?data_dir={tmp_path / 'tfds'}"
    server.cut.add("/wmt13/training-parallel-un.tgz")
    assert "could not be prepared" in fault(spec)
    server.cut.clear()
    assert len(read(spec)) == len(TRAIN)


def test_a_preparation_that_failed_starts_over_from_what_was_downloaded(
    tmp_path, monkeypatch, server
):
    from bahdanau_jax.data.sources import text_files

    spec = f"wmt14_paper/fr-en?data_dir={tmp_path / 'tfds'}"
    whole = text_files.sentences
    monkeypatch.setattr(
        text_files, "sentences", lambda path: iter(list(whole(path))[path.suffix == ".en" :])
    )
    assert re.search("could not be prepared: .* lines, but .*: line n of one", fault(spec))
    assert not list(tmp_path.glob("tfds/wmt14_paper/fr-en/*"))
    monkeypatch.setattr(text_files, "sentences", whole)
    server.shutdown()
    assert len(read(spec)) == len(TRAIN)
