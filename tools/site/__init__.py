"""The documentation site: `make docs` builds it with mkdocs into build/site.

`hook.py` is called by mkdocs. The other files make what the hook adds: the reference pages, the
equations, the excerpts of source code, and the navigation.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent  # the checkout
