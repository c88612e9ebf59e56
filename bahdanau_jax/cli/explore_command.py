"""bahdanau explore --run DIR [--run DIR]"""

import logging
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from bahdanau_jax.cli import import_from_here, options, page_texts
from bahdanau_jax.reporting import say

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Explore:
    """Serve a page in which a trained model runs: its translations, attention and beam.

    The page shows the alignment matrix, the beam and the gradients. Words and attention weights can
    be changed by hand. With two runs, it shows them side by side. Ctrl-C ends the server.
    """

    # the folder of a trained model; a second one is shown beside the first
    run: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction]
    port: int = 8008  # the port of the page; 0: any free one
    host: str = "127.0.0.1"  # the address to listen on; the default is this machine alone
    open: bool = False  # open the page in the browser
    input: Path | None = None  # a file of sentences for the page; default: of the test corpus
    reference: Path | None = None  # a file with their translations
    gold: Path | None = None  # gold links between both: Pharaoh with '?' for possible ones, or .wa
    trust_code: bool = False  # import the module that the run names (module:attribute), if it does

    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau explore --run runs/quickstart",
        "bahdanau explore --run runs/rnnsearch --run runs/rnnencdec --port 9000",
    )


def main(arguments: Sequence[str]) -> None:
    chosen = options.parse(Explore, arguments, "bahdanau explore")
    page_texts.check(chosen)
    if not 0 <= chosen.port <= 65535:
        raise ValueError(f"--port is {chosen.port}, but should be between 0 and 65535")
    if chosen.trust_code:
        import_from_here()
    from bahdanau_jax import explorer, trained

    runs = [trained.load(folder, trust_code=chosen.trust_code) for folder in chosen.run]
    texts = page_texts.read(chosen.input, chosen.reference, chosen.gold)
    page = explorer.build_page(runs, *texts, served=True)
    if page.recorded:
        say(f"{page.recorded}: the page has recorded translations instead of the model")
    if chosen.host not in explorer.LOOPBACK:
        log.warning("--host %s: other machines can read the page and the model", chosen.host)
    with explorer.bind(page, chosen.host, chosen.port) as server:
        address = explorer.address(server)
        print(address, flush=True)
        say(f"{len(page.html.encode()) / 1e6:.1f} MB; end with Ctrl-C")
        if chosen.open:
            webbrowser.open(address)
        server.serve_forever()
