"""The public names of the package, and which of them have no documentation.

A name is public if it is in `__all__` of `bahdanau_jax`, or of one of the folders in FOLDERS. Of
training and report, only the names in CHOSEN are public. If the name is a module, its functions and
classes are public. If it is a class, its methods and fields are public. A leading _ makes a name
private. A class or type alias of the package in the signature of a public name is documented too,
under "Types of these signatures". The other folders serve the package itself.
"""

import importlib
import inspect
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import griffe

from tools.site import ROOT, docstrings, signatures

PACKAGE = "bahdanau_jax"

# Folder -> what its page is about; the order of the pages.
FOLDERS: Mapping[str, str] = MappingProxyType(
    {
        "": "Load, train, configure",
        "model": "Model",
        "data": "Data",
        "training": "Training",
        "decoding": "Decoding",
        "evaluation": "Evaluation",
        "alignment": "Alignment",
        "figures": "Figures",
        "report": "Reports",
        "experiments": "Experiments",
        "export": "Exported model",
        "explorer": "Explorer",
        "serving": "Server",
    }
)

# The names of a folder that users reach. Its other names serve the package itself.
CHOSEN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "training": (
            "Diverged",
            "Evaluator",
            "Interrupted",
            "TrainState",
            "load_batch",
            "read_metrics",
            "read_record",
            "schedule",
        ),
        "report": ("Settings", "report"),
    }
)


class Public(NamedTuple):
    """A public name with what belongs to it."""

    path: str  # as users write it, such as bahdanau_jax.figures.alignment
    source: str  # where it is defined, such as bahdanau_jax.figures.translation_figures.alignment
    kind: str  # module, class, function or attribute
    members: tuple[str, ...]  # public members: methods of a class, names of a module
    undocumented: tuple[str, ...]  # what has no documentation: the name, its members, its fields


def package() -> griffe.Module:
    """The package as griffe reads it from the source, without running it."""
    extensions = griffe.load_extensions(docstrings.PlainDocstrings)
    loader = griffe.GriffeLoader(extensions=extensions, search_paths=[str(ROOT)])
    loaded = loader.load(PACKAGE)
    loader.resolve_aliases(implicit=True)
    assert isinstance(loaded, griffe.Module)
    return loaded


def names(folder: str) -> list[str]:
    """The public names of a folder in the order of its page: code, then constants, then modules."""
    module = importlib.import_module(dotted(folder))
    listed = [name for name in module.__all__ if name in CHOSEN.get(folder, module.__all__)]

    def place(name: str) -> int:
        value = getattr(module, name)
        return 2 if inspect.ismodule(value) else 0 if inspect.isroutine(value) else name.isupper()

    return sorted(listed, key=place)


def dotted(folder: str) -> str:
    return f"{PACKAGE}.{folder}" if folder else PACKAGE


class Inventory:
    """All public names, each on the page of the first folder that has it."""

    def __init__(self) -> None:
        self.root = package()
        self.pages: dict[str, list[Public]] = {}
        self.elsewhere: dict[str, list[str]] = {}  # folder -> names that an earlier page has
        self.types: dict[str, list[Public]] = {folder: [] for folder in FOLDERS}
        self._seen: set[str] = set()
        for folder in FOLDERS:
            self.pages[folder], self.elsewhere[folder] = [], []
            for name in names(folder):
                self._add(folder, name)
        for folder in FOLDERS:
            self._add_types(folder)

    def _add(self, folder: str, name: str) -> None:
        found, path = self._object(folder, name), f"{dotted(folder)}.{name}"
        if found.path in self._seen or (not folder and found.is_module):
            self.elsewhere[folder].append(path)
        else:
            self.pages[folder].append(self._public(path, found))

    def _add_types(self, folder: str) -> None:
        """Add the types that the signatures of a page name, and those of their own signatures.

        A type is on the page of the folder that defines it, or else on this page.
        """
        queue = [self._at(public.source) for public in self.pages[folder]]
        for found in queue:
            for path in signatures.types_of(found, _members):
                named = self._at(path)
                is_type = named.is_class or signatures.is_alias(named)
                if is_type and named.path not in self._seen and not named.name.startswith("_"):
                    home = named.path.split(".")[1]
                    public = self._public(named.path, named)
                    self.types[home if home in FOLDERS else folder].append(public)
                    queue.append(named)

    def _at(self, path: str) -> griffe.Object:
        return _final(self.root[path.removeprefix(f"{PACKAGE}.")])

    def _object(self, folder: str, name: str) -> griffe.Object:
        """What a name stands for. Python says where, since a file may have the name as well."""
        value = getattr(importlib.import_module(dotted(folder)), name)
        path = f"{dotted(folder)}.{name}"
        if inspect.ismodule(value):
            path = value.__name__
        elif inspect.isfunction(value) or inspect.isclass(value):
            path = f"{value.__module__}.{value.__qualname__}"
        return self._at(path)

    def _public(self, path: str, found: griffe.Object) -> Public:
        members = [name for name in _members(found) if found.members[name].path not in self._seen]
        self._seen.add(found.path)
        words = found.docstring.value.partition("Attributes:")[0] if found.docstring else ""
        missing = [] if words.strip() else [path]
        if isinstance(found, griffe.Class):
            comments = docstrings.fields(found)
            missing += [f"{path}.{name}" for name, words in comments.items() if not words]
        for name in members:
            inner = self._public(f"{path}.{name}", _final(found.members[name]))
            missing += inner.undocumented
        return Public(path, found.path, found.kind.value, tuple(members), tuple(missing))

    def source(self, path: str) -> str:
        """Where a public name of a folder is defined."""
        folder, _, name = path.removeprefix(f"{PACKAGE}.").rpartition(".")
        return self._object(folder, name).path

    def undocumented(self) -> list[str]:
        """The public names without documentation, as users write them."""
        pages = [*self.pages.values(), *self.types.values()]
        listed = (public for page in pages for public in page)
        return [missing for public in listed for missing in public.undocumented]

    def count(self) -> int:
        """The number of public names, with methods of classes and names of modules."""
        pages = [*self.pages.values(), *self.types.values()]
        return sum(1 + len(public.members) for page in pages for public in page)


def _final(found: griffe.Object | griffe.Alias) -> griffe.Object:
    return found.final_target if isinstance(found, griffe.Alias) else found


def _members(found: griffe.Object) -> Iterator[str]:
    """The public members: documented names of a module, methods and properties of a class."""
    for member in found.members.values():
        if member.is_alias or member.name.startswith("_"):
            continue
        is_property = member.is_attribute and "property" in member.labels
        is_constant = (
            found.is_module
            and member.is_attribute
            and (member.name.isupper() or bool(member.docstring))
        )
        if (
            member.is_function
            or is_property
            or is_constant
            or (member.is_class and found.is_module)
        ):
            yield member.name
