"""The Python blocks of the documents run, in the order of their page, with a trained run."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENTS = [ROOT / "README.md", ROOT / "docs/index.md", *sorted(ROOT.glob("docs/howto/*.md"))]
PAGES = {
    str(path.relative_to(ROOT)): blocks
    for path in DOCUMENTS
    if (blocks := BLOCK.findall(path.read_text(encoding="utf-8")))
}
NOT_RUN = {
    "docs/howto/own-decoder.md": "excerpts of files of the package",
    "docs/howto/own-optimiser.md": "an excerpt of a file of the package",
    "docs/howto/own-text.md": "a configuration for files of the user",
    "docs/howto/received-runs.md": "it needs a run of another person",
    "docs/howto/serve.md": "it serves until it is stopped",
    "docs/howto/sweeps.md": "it trains twenty models",
    "docs/howto/watch-a-run.md": "it trains the quickstart",
}


def test_the_pages_that_are_not_run_exist():
    assert set(NOT_RUN) < set(PAGES)


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(PAGES))
def test_the_blocks_of_a_page_run(page, trained, tmp_path, monkeypatch):
    names = {"__name__": page}
    blocks = [compile(each, page, "exec") for each in PAGES[page]]
    if page in NOT_RUN:
        pytest.skip(NOT_RUN[page])
    monkeypatch.chdir(tmp_path)
    os.makedirs("runs")
    os.symlink(trained[0], "runs/quickstart")
    for block in blocks:
        exec(block, names)
