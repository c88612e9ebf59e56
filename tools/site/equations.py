"""Equations as MathML, so that no page loads a program that draws them.

A page has TeX between $ or between $$. The extension arithmatex of pymdown puts it into elements of
the class `arithmatex`, and `mathml` replaces those.
"""

import html
import re

from latex2mathml import converter

ELEMENT = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<tex>.*?)\\[)\]]</(?P=tag)>',
    re.DOTALL,
)


# latex2mathml knows `align*`, which TeX allows outside of $$ only.
ALIGNED = (("{aligned}", "{align*}"),)
UNKNOWN = re.compile(r"<m[io]>(\\\w+|&)</m[io]>")  # TeX that latex2mathml did not convert


def mathml(page: str) -> str:
    """The HTML of a page with MathML in place of TeX.

    Raises ValueError for TeX that latex2mathml does not know.
    """
    return ELEMENT.sub(_convert, page)


def _convert(match: re.Match) -> str:
    tex = html.unescape(match["tex"]).strip()
    for known, written in ALIGNED:
        tex = tex.replace(known, written)
    block = match["open"] == "["
    drawn = converter.convert(tex, display="block" if block else "inline")
    if unknown := UNKNOWN.search(drawn):
        raise ValueError(f"latex2mathml does not know {unknown[1]} of the equation {tex}")
    return f'<div class="equation">{drawn}</div>' if block else drawn
