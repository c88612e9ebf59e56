"""bahdanau explore --run DIR [--run DIR]"""

import logging
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro

from bahdanau_jax import run_folder, serving
from bahdanau_jax.cli import options, page_texts, serve_command
from bahdanau_jax.cli.runs import load
from bahdanau_jax.reporting import say

if TYPE_CHECKING:
    from bahdanau_jax import explorer

log = logging.getLogger(__name__)
BINARY = "application/octet-stream"
HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
SETTINGS = serving.Settings(warm_tokens=0)  # the page needs none of the server's programs


@dataclass(frozen=True)
class Explore:
    """Serve a page in which a trained model runs: its translations, attention and beam.

    The page shows the alignment matrix, the beam and the gradients. Words and attention weights can
    be changed by hand. With two runs, it shows them side by side. Ctrl-C ends the server. It also
    has the endpoints of bahdanau serve, which compile their programs at the first request.
    """

    # the folder of a trained model, DIR, or one of its checkpoints, DIR@STEP; default: the best
    # one; a second model is shown beside the first
    run: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction]
    port: int = 8008  # the port of the page; 0: any free one
    host: str = "127.0.0.1"  # the address to listen on; the default is this machine alone
    # a further name of this server in the header Host, such as that of a reverse proxy in front
    allow_host: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    open: bool = False  # open the page in the browser
    trust_code: bool = False  # import the module that the run names (module:attribute), if it does
    settings: Annotated[page_texts.Files, tyro.conf.arg(name="")] = page_texts.Files()

    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau explore --run runs/quickstart",
        "bahdanau explore --run runs/rnnsearch --run runs/rnnencdec --port 9000",
        "bahdanau explore --run runs/quickstart@650 --run runs/quickstart",
    )


def main(arguments: Sequence[str]) -> None:
    chosen = options.parse(Explore, arguments, "bahdanau explore")
    page_texts.check(chosen.run, chosen.settings)
    serve_command.check_port(chosen.port)
    names = run_folder.names(chosen.run)
    with serving.bind(chosen.host, chosen.port) as opened:
        hosts = serving.answered_hosts(chosen.host, chosen.allow_host, opened.getsockname()[0])
        runs = load(chosen.run, chosen.trust_code)
        from bahdanau_jax import explorer

        texts = page_texts.read(chosen.settings)
        page = explorer.build_page(runs, *texts, served=True)
        if page.recorded:
            say(f"{page.recorded}: the page has recorded translations instead of the model")
        if not serving.is_loopback(chosen.host):
            log.warning("--host %s: other machines can read the page and the model", chosen.host)
        served = dict(zip(names, runs, strict=True))
        app = serving.application(served, SETTINGS, pages(page), hosts)
        address = f"{serving.url(opened)}/"
        print(address, flush=True)
        say(f"{len(page.html.encode()) / 1e6:.1f} MB; end with Ctrl-C")
        if chosen.open:
            webbrowser.open(address)
        serving.serve(app, opened)
    serve_command.end(app)


def pages(page: "explorer.Page") -> "dict[str, serving.Page]":
    """Return what the server answers: the page at "/", and the files that it fetches."""
    files = {
        f"/{name}": serving.Page(lambda content=content: content, BINARY, HEADERS)
        for name, content in page.files.items()
    }
    return {"/": serving.Page(lambda: page.html, headers=HEADERS), **files}
