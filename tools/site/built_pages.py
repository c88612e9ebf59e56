"""Checks the built site: no page loads anything from elsewhere, and every link leads somewhere.

python -m tools.site.built_pages build/site

Links to other sites are allowed, and not tried. The exit code is 1 where there is a fault.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

ELSEWHERE = re.compile(r"(?i)(https?:)?//")
SCHEME = re.compile(r"(?i)[a-z][a-z0-9+.-]*:")
STYLE = re.compile(r"(?i)(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^'\")\s]+)")
# Relations of <link> that a browser does not load.
NAMED_ONLY = {"canonical", "next", "prev", "alternate", "license", "author"}


class Page(HTMLParser):
    """The anchors of a page, its links, and the addresses that a browser loads with it."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = STYLE.findall(text)
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and not set(values.get("rel", "").split()) & NAMED_ONLY:
            self.loaded += [values["href"]] if "href" in values else []
        self.loaded += [values[name] for name in ("src", "data", "poster") if name in values]
        self.loaded += [part.split()[0] for part in values.get("srcset", "").split(",") if part]


def faults(site: Path) -> list[str]:
    """The faults of a built site, one in each line."""
    files = sorted(site.rglob("*.html"))
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in files}
    lines = [
        f"{path.relative_to(site)}: the style sheet loads {address}"
        for path in sorted(site.rglob("*.css"))
        for address in STYLE.findall(path.read_text(encoding="utf-8"))
    ]
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        lines += [f"{name}: {fault}" for fault in _of_page(site.resolve(), path, page, pages)]
    return lines


def _of_page(site: Path, path: Path, page: Page, pages: dict[Path, Page]) -> Iterator[str]:
    for address in page.loaded:
        if ELSEWHERE.match(address):
            yield f"the page loads {address}"
    for address in dict.fromkeys([*page.links, *page.loaded]):
        if ELSEWHERE.match(address) or SCHEME.match(address):
            continue
        target, anchor = (unquote(part) for part in urldefrag(address))
        base = site if target.startswith("/") else path.parent
        there = (base / target.lstrip("/")).resolve() if target else path
        if there.is_dir():
            there = there / "index.html"
        if not there.is_file() or not there.is_relative_to(site):
            yield f"{address} leads nowhere"
        elif anchor and there in pages and anchor not in pages[there].anchors:
            yield f"{address} names no place of {there.relative_to(site)}"


def main(arguments: list[str]) -> int:
    site = Path(arguments[0] if arguments else "build/site")
    if not (site / "index.html").is_file():
        print(f"{site} has no index.html: build the site with make docs", file=sys.stderr)
        return 2
    found = faults(site)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
