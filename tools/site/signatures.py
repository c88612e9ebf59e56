"""The types of the package that signatures name."""

from collections.abc import Callable, Iterator

import griffe

Members = Callable[[griffe.Object], Iterator[str]]


def types_of(found: griffe.Object, members: Members) -> Iterator[str]:
    """The paths of all names of the package in the annotations of a name and its public members."""
    for annotation in _annotations(found, members):
        if isinstance(annotation, griffe.Expr):
            for part in annotation.iterate(flat=True):
                if isinstance(part, griffe.ExprName):
                    path = part.canonical_path
                    if path.startswith(f"{found.package.path}."):
                        yield path


def is_alias(found: griffe.Object) -> bool:
    """Whether a name of a module is another name of a type, such as Params."""
    return (
        isinstance(found, griffe.Attribute)
        and found.annotation is None
        and found.name[0].isupper()
        and not found.name.isupper()
    )


def _annotations(found: griffe.Object, members: Members) -> Iterator[griffe.Expr | str | None]:
    if isinstance(found, griffe.Function):
        yield found.returns
        yield from (parameter.annotation for parameter in found.parameters)
    elif isinstance(found, griffe.Attribute):
        yield found.value if is_alias(found) else found.annotation
    elif isinstance(found, griffe.Class):
        yield from found.bases
        for name, member in found.members.items():
            is_field = isinstance(member, griffe.Attribute) and not name.startswith("_")
            if is_field or name in ("__init__", "__call__") or name in members(found):
                yield from _annotations(_final(member), members)
    elif isinstance(found, griffe.Module):
        for name in members(found):
            yield from _annotations(_final(found.members[name]), members)


def _final(found: griffe.Object | griffe.Alias) -> griffe.Object:
    return found.final_target if isinstance(found, griffe.Alias) else found
