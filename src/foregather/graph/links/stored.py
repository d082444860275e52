"""stored: links in a graph folder: how their arrays are called, and what meta.json says of them.

Links are numbered in the order of their relations and names; meta.json keeps the names, so that no
name of the user is ever the name of a file. What it says is read as untrusted text.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy.typing as npt

from foregather.errors import FormatError, InputError
from foregather.graph.links.links import Links
from foregather.graph.names import check_name

__all__ = ["LinkEntry", "describe_links", "link_arrays", "link_folder", "open_links", "parse_links"]

Array = npt.NDArray[Any]

_NEEDED = ("sources", "targets")
_MOST_COUNT = 1 << 60


@dataclass(frozen=True, slots=True)
class LinkEntry:
    """What meta.json says about one list of links; `relation` is None in a plain graph."""

    name: str
    relation: tuple[str, str, str] | None
    num_links: int


def link_folder(number: int) -> str:
    """The folder of one list of links."""
    return f"links/{number}"


def link_arrays(links: Iterable[Links]) -> dict[str, Array]:
    """Every array of links, which are in the order of their numbers."""
    found: dict[str, Array] = {}
    for number, one in enumerate(links):
        found |= {f"{link_folder(number)}/{key}": values for key, values in one.arrays().items()}
    return found


def describe_links(
    links: Iterable[tuple[str, tuple[str, str, str] | None, int]],
) -> dict[str, list[dict[str, Any]]]:
    """The field `links` of meta.json; nothing where there are none.

    Args:
        links: name, relation (None in a plain graph) and number of links, in order.
    """
    entries = [
        {"name": name, "num_links": count} | ({} if relation is None else {"type": list(relation)})
        for name, relation, count in links
    ]
    return {"links": entries} if entries else {}


def parse_links(text: Mapping[str, Any], arrays: Mapping[str, Any]) -> tuple[LinkEntry, ...]:
    """Checks the field `links` of a meta.json, whose arrays are listed.

    Raises:
        FormatError: it is malformed, or does not fit the arrays.
    """
    listed = text.get("links")
    if not isinstance(listed, list) or not listed:
        raise _fail("has no list of links")
    try:
        entries = tuple(_entry(one) for one in listed)
    except InputError as error:
        raise _fail(f"has links without a name: {error}") from error
    keys = [(one.relation or (), one.name) for one in entries]
    if keys != sorted(set(keys)):
        raise _fail("names links twice or not in their order")
    needed = {f"{link_folder(n)}/{key}" for n in range(len(entries)) for key in _NEEDED}
    missing = sorted(needed - arrays.keys())
    if missing:
        raise _fail(f"lists no array {missing[0]}")
    known = {f"{link_folder(n)}/{one.name}" for n in range(len(entries)) for one in fields(Links)}
    unknown = sorted(name for name in arrays if name.startswith("links/") and name not in known)
    if unknown:
        raise FormatError(
            f"meta.json lists an array {unknown[0]}, which this version of foregather does not "
            "know; open the folder with the version that made it"
        )
    return entries


def _fail(why: str) -> FormatError:
    return FormatError(f"meta.json {why}; the graph folder is damaged, make it again")


def _entry(entry: Any) -> LinkEntry:
    if not isinstance(entry, dict):
        raise _fail("has links that are no object")
    count = entry.get("num_links")
    if type(count) is not int or not 0 <= count < _MOST_COUNT:
        raise _fail(f"has num_links = {count!r:.40}, expected a count")
    relation = entry.get("type")
    if relation is not None:
        if not isinstance(relation, list) or len(relation) != 3:
            raise _fail(f"has links of the relation {relation!r:.80}, expected three names")
        relation = tuple(check_name(part, "relation") for part in relation)
    return LinkEntry(check_name(entry.get("name"), "list of links"), relation, count)


def open_links(entries: Iterable[LinkEntry], arrays: Mapping[str, Array]) -> list[Links]:
    """The links of a folder, in the order of their numbers.

    Raises:
        InputError: arrays do not fit together; names the links.
    """
    made = []
    for number, entry in enumerate(entries):
        start = f"{link_folder(number)}/"
        found = {name[len(start) :]: one for name, one in arrays.items() if name.startswith(start)}
        try:
            one = Links(**found)
            if one.num_links != entry.num_links:
                raise InputError(f"there are {one.num_links}, expected {entry.num_links}")
        except InputError as error:
            raise InputError(f"links {entry.name!r}: {error}") from error
        made.append(one)
    return made
