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


def mathml(page: str) -> str:
    """The HTML of a page with MathML in place of TeX."""
    return ELEMENT.sub(_convert, page)


def _convert(match: re.Match) -> str:
    tex = html.unescape(match["tex"]).strip()
    block = match["open"] == "["
    drawn = converter.convert(tex, display="block" if block else "inline")
    return f'<div class="equation">{drawn}</div>' if block else drawn
