"""Figures with text of any script: labels, fonts, and files that are the same bytes each time.

`Drawing` is matplotlib's Figure with another `savefig`. Without pyplot, it needs no display and no
global state.
"""

import contextlib
import functools
import io
import os
import unicodedata
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text

from bahdanau_jax.atomic import replaced_file

INK = "#1a1a1a"
QUIET = "#767676"  # lines for reference
FAINT = "#d9d9d9"  # grid lines
BAR = "#9fb3c8"
BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"  # of the palette by Okabe and Ito
# Name of a colour in the style of a report's page -> the colour of pictures that it replaces there.
PALETTE: Mapping[str, str] = MappingProxyType(
    {
        **{"ink": INK, "quiet": QUIET, "line": FAINT, "bar": BAR},
        **{"blue": BLUE, "vermilion": VERMILION, "green": GREEN},
    }
)

# Fonts in the order in which they are tried; matplotlib's own "font.sans-serif" comes after them.
FONTS = (
    *("DejaVu Sans", "Noto Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC"),
    *("Source Han Sans SC", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback"),
    *("PingFang SC", "Heiti TC", "Hiragino Sans", "Apple SD Gothic Neo", "Microsoft YaHei"),
    *("SimHei", "Yu Gothic", "Malgun Gothic", "Noto Sans JP", "Noto Sans KR", "NanumGothic"),
    *("Noto Sans Arabic", "Noto Naskh Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari"),
    *("Noto Sans Bengali", "Noto Sans Tamil", "Noto Sans Telugu", "Noto Sans Thai"),
    *("Nirmala UI", "Leelawadee UI", "Noto Sans Ethiopic", "Noto Sans Georgian"),
    *("Arial Unicode MS", "Noto Emoji", "Segoe UI Symbol", "Unifont"),
)

# Formats that `save` writes -> metadata that leaves out the time of writing.
FORMATS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
)

# Properties of text that is drawn as written: no mathtext between dollars, no TeX.
PLAIN: Mapping[str, Any] = MappingProxyType({"parse_math": False, "usetex": False})

_WRITING: Any = MappingProxyType(
    {
        "svg.fonttype": "none",  # text stays text, searchable and in the reader's fonts
        "svg.hashsalt": "bahdanau_jax",
        "pdf.fonttype": 42,
        "savefig.bbox": None,
    }
)
PADDING = 0.08  # free inches around the axes
NOTEBOOK_DPI = 110  # pixels for each inch of a picture in a notebook
_LONGEST = 30  # characters of a label


class MissingFont(UserWarning):
    """No installed font has the characters of a script, so boxes are drawn for them."""


class Drawing(Figure):
    """A Figure whose `savefig` draws any script and writes the same bytes each time."""

    def __init__(self, width: float = 6.4, height: float = 4.0):
        layout = ConstrainedLayoutEngine(w_pad=PADDING, h_pad=PADDING)
        super().__init__(figsize=(width, height), dpi=150, layout=layout)

    def savefig(self, fname: Any, **kwargs: Any) -> None:
        """Save as matplotlib does; SVG keeps text as text. Warns `MissingFont` once for a file."""
        _write(self, fname, **kwargs)

    def _repr_png_(self) -> bytes:
        """The picture that a notebook shows for the value of a cell."""
        content = io.BytesIO()
        self.savefig(content, format="png", dpi=NOTEBOOK_DPI)
        return content.getvalue()


def save(figure: Figure, path: str | os.PathLike) -> None:
    """Write a figure as .png, .svg or .pdf, by the path's suffix, and create missing folders.

    The file appears whole. Raises ValueError for another suffix, and OSError where the path cannot
    be written. Warns `MissingFont` where a .png or .pdf has characters that no installed font has;
    the file is still written.
    """
    path = Path(path)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        suffixes = ", ".join(f".{known}" for known in FORMATS)
        raise ValueError(f"cannot draw {path}: its name should end in one of {suffixes}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(path) as draft:
        _write(figure, draft, format=kind)


def label(token: str) -> str:
    """Return a token as a label: one line of 1 to 30 characters.

    Spaces and the empty token become ␣. Control characters and surrogates, which no font has and
    SVG forbids, become �.

    >>> label(" "), label("a\\n"), label("$x$")
    ('␣', 'a�', '$x$')
    """
    shown = "".join(map(_visible, token)) or "␣"
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def set_fonts(figure: Figure) -> str:
    """Set fonts for every text of the figure; return the characters that no installed font has."""
    for axes in figure.axes:  # matplotlib creates tick labels at this call
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_ticklabels()
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    families, missing = _choose_fonts("".join(text.get_text() for text in texts))
    for text in texts:
        text.set_fontfamily(families)
    return missing


@contextlib.contextmanager
def ignoring_glyphs() -> Iterator[None]:
    """Suppress matplotlib's warning for each missing glyph; `MissingFont` replaces them all."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from")
        yield


def _write(figure: Figure, target: Any, **kwargs: Any) -> None:
    named = isinstance(target, (str, os.PathLike))
    suffix = Path(target).suffix.lower().removeprefix(".") if named else ""
    kind = kwargs.setdefault("format", suffix or "png")
    missing = set_fonts(figure)
    if missing and kind != "svg":
        warnings.warn(_describe(missing), MissingFont, stacklevel=3)
    kwargs.setdefault("metadata", dict(FORMATS.get(kind, {})) or None)
    with matplotlib.rc_context(_WRITING), ignoring_glyphs():
        Figure.savefig(figure, target, **kwargs)


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category[0] == "Z":
        return "␣"
    return "�" if category in ("Cc", "Cs", "Cn") else character


def _choose_fonts(text: str) -> tuple[list[str], str]:
    """Return font families for the characters, and the characters that no installed font has."""
    missing = {c for c in text if unicodedata.category(c) not in ("Cc", "Cf", "Zs")}
    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    families = []
    for family in dict.fromkeys((*FONTS, *matplotlib.rcParams["font.sans-serif"])):
        if family in installed and (covered := missing & _characters(family)):
            families.append(family)
            missing -= covered
    return families or ["DejaVu Sans"], "".join(sorted(missing))


@functools.cache
def _characters(family: str) -> frozenset[str]:
    font = font_manager.get_font(font_manager.findfont(family))
    return frozenset(map(chr, font.get_charmap()))


def _describe(missing: str) -> str:
    scripts = ", ".join(dict.fromkeys(map(_script, missing)))
    shown = missing if len(missing) <= 10 else missing[:10] + "…"
    return (
        f"no installed font has {scripts} ({shown}), so boxes are drawn: install a font with it "
        "(Noto Sans has most scripts), or write .svg, which leaves the font to the reader"
    )


def _script(character: str) -> str:
    """Return the script, the first word of the character's name: CJK, HANGUL, DEVANAGARI."""
    if unicodedata.category(character)[0] == "S":
        return "symbols"
    return unicodedata.name(character, "unnamed").split(maxsplit=1)[0]
