"""Takes pictures of five pages of the site: at 1280 and 400 pixels, in light and in dark colours.

make docs && python -m tools.site.pictures

The pictures go to docs/site-pictures. It needs playwright and a Chromium in PATH. A font for
mathematics, such as STIX Two Math, has to be installed, else limits of sums overlap.
"""

import io
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from tools.site import ROOT

SITE, FOLDER = ROOT / "build/site", ROOT / "docs/site-pictures"
# Name of a picture -> the page, and the heading at its top.
PAGES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "index": ("index.html", ""),
        "model": ("explanation/model.html", "#attention"),
        "howto": ("howto/own-text.html", ""),
        "configuration": ("reference/configuration.html", ""),
        "results": ("results/index.html", ""),
    }
)
HEIGHTS: Mapping[int, int] = MappingProxyType({1280: 860, 400: 860})  # of each width, in pixels
SCHEMES = ("light", "dark")
COLOURS = 256  # of a picture's palette, which keeps the files small


def main() -> int:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if not (SITE / "index.html").exists():
        print(f"{SITE} has no site: run make docs first", file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, (page, heading) in PAGES.items():
            for width, height in HEIGHTS.items():
                for scheme in SCHEMES:
                    path = FOLDER / f"{name}-{width}-{scheme}.png"
                    take(browser, f"{(SITE / page).as_uri()}{heading}", path, width, height)
        browser.close()
    return 0


def take(browser: Browser, address: str, path: Path, width: int, height: int) -> None:
    """Save what a window of this size shows; the name of the picture ends in the colour scheme."""
    scheme = "dark" if path.stem.endswith("dark") else "light"
    size = {"width": width, "height": height}
    page = browser.new_page(viewport=size, color_scheme=scheme, reduced_motion="reduce")  # pyright: ignore
    page.goto(address)
    page.wait_for_timeout(500)
    with Image.open(io.BytesIO(page.screenshot())) as picture:
        picture.convert("RGB").quantize(COLOURS).save(path, optimize=True)
    page.close()


if __name__ == "__main__":
    sys.exit(main())
