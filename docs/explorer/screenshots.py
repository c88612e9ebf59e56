"""Takes the pictures of this folder: the explorer at 1200 and 400 pixels, light and dark.

python docs/explorer/screenshots.py runs/quickstart [runs/rnnencdec]

It needs playwright and a Chromium in PATH. With a second run, it also takes the picture of both.
"""

import io
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from bahdanau_jax.explorer import write_page
from bahdanau_jax.trained import load

FOLDER = Path(__file__).resolve().parent
SENTENCE = "s=The+man+saw+the+European+Economic+Area+."
# Name -> (state of the page, widths, colour schemes, whether the whole page is taken)
PICTURES = {
    "screen": (f"{SENTENCE}&w0=7", (1200,), ("light", "dark"), False),
    "page": (SENTENCE, (1200, 400), ("light", "dark"), True),
    "gradients": (f"{SENTENCE}&v=both&w0=7", (1200,), ("light",), True),
    "changed": (f"{SENTENCE}&a0=4:2&w0=4", (1200,), ("light",), True),
    "tour": (f"{SENTENCE}&t=1&w0=5", (1200, 400), ("light", "dark"), False),
}
TWO = {"two": (SENTENCE, (1200, 400), ("light",), True)}
COLOURS = 192  # of a picture's palette, which keeps the files small


def main(folders: Sequence[str]) -> None:
    runs = [load(folder) for folder in folders]
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for pictures, other in ((PICTURES, None), (TWO, runs[1] if len(runs) > 1 else None)):
            if pictures is TWO and other is None:
                continue
            path = Path(temporary, "page.html")
            write_page(runs[0], path, other=other)
            for name, picture in pictures.items():
                take(browser, path, name, *picture)
        browser.close()


def take(
    browser: Any, path: Path, name: str, state: str, widths: Any, schemes: Any, whole: bool
) -> None:
    for width in widths:
        for scheme in schemes:
            size = {"width": width, "height": 900}
            page = browser.new_page(viewport=size, color_scheme=scheme, reduced_motion="reduce")
            page.goto(f"{path.as_uri()}#{state}")
            page.wait_for_selector("html[data-ready]", timeout=120_000)
            if "v=both" in state:
                while not page.evaluate("explorer.app.panels[0].gradients !== null"):
                    page.wait_for_timeout(100)
            page.wait_for_timeout(300)
            picture = Image.open(io.BytesIO(page.screenshot(full_page=whole)))
            small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
            small.save(FOLDER / f"{name}-{width}-{scheme}.png", optimize=True)
            page.close()


if __name__ == "__main__":
    main(sys.argv[1:])
