"""Snapshots of every kind, small, with what must come out of them; and ways to damage a file."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import crown
from ivm_triangle import Triangle

_R = {"a": "int64", "b": "int64"}
_S = {"b": "int64", "c": "int64"}
_CYCLE = {"E": {"x": "int64", "y": "int64"}}
_EDGES = [{"x": x, "y": y} for x, y in ((1, 2), (2, 3), (3, 1), (3, 4), (4, 1), (2, 1))]
_PATHS = {
    "R": [{"a": a, "b": a % 3, "_weight": 1 + a % 2} for a in range(7)],
    "S": [{"b": b % 4, "c": b, "_weight": 1} for b in range(6)],
}


@dataclass(frozen=True)
class Kind:
    """A kind of snapshot: how one is made, how it is read, and what was in it."""

    make: Callable[[], Any]
    load: Callable[[Path], Any]


def _view(query: str, schema: dict[str, Any], changes: dict[str, Any], **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        view = crown.view(query, schema, **options)
        view.apply(changes)
        return view

    return make


def _load(path: Path) -> Any:
    return crown.load(path, memory_budget="1 MiB")


def _triangle() -> Triangle:
    triangle = Triangle("ab", columns={"R": ("who", "n")})
    triangle.apply({"R": {"who": ["ann", "bob"], "n": [1, 1]}, "S": {"n": [1], "z": ["é"]}})
    triangle.apply({"T": {"z": ["é", None], "who": ["ann", "bob"]}})
    return triangle


KINDS = {
    "tree": Kind(_view("Q(a, b, c) :- R(a, b), S(b, c).", {"R": _R, "S": _S}, _PATHS), _load),
    "counted": Kind(_view("Q(a, c) :- R(a, b), S(b, c).", {"R": _R, "S": _S}, _PATHS, on_missing="raise"), _load),
    "strings": Kind(
        _view(
            "SELECT DISTINCT a, s FROM R WHERE s > 'b' OR a = 1",
            {"R": {"a": "int32", "s": "string"}},
            {"R": [{"a": 1, "s": "a"}, {"a": 2, "s": "bé"}, {"a": 3, "s": None}]},
        ),
        _load,
    ),
    "generic bag": Kind(_view("Q(a, b, c, d) :- E(a, b), E(b, c), E(c, d), E(d, a).", _CYCLE, {"E": _EDGES}), _load),
    "triangle bag": Kind(_view("Q(a, b, c) :- E(a, b), E(b, c), E(c, a).", _CYCLE, {"E": _EDGES}), _load),
    "cells": Kind(_view("Q(a, b, c) :- R(a, b), S(b, c).", {"R": _R, "S": _S}, _PATHS, threads=2), _load),
    "groups": Kind(_view("SELECT b, COUNT(*) AS n FROM R GROUP BY b", {"R": _R}, {"R": _PATHS["R"]}), _load),
    "Triangle": Kind(_triangle, lambda path: Triangle.load(path, memory="1 MiB")),
}


_COUNTED_BY_READING = {"steps", "blocks", "emitted", "max_delay", "operations"}


def contents(made: Any) -> tuple[list[str], str]:
    """What a view or a `Triangle` holds: its results; and its plan and counters, but those that reading changes."""
    results = sorted(str(row) for batch in made.results() for row in batch.to_pylist())
    return results, f"{made.plan} {_without(made.stats())}"


def _without(stats: Any) -> Any:
    if isinstance(stats, list):
        return [_without(value) for value in stats]
    if not isinstance(stats, dict):
        return stats
    return {name: _without(value) for name, value in stats.items() if name not in _COUNTED_BY_READING}


@cache
def saved(kind: str, folder: Path) -> tuple[bytes, tuple[list[str], str]]:
    """The bytes of a snapshot of this kind, and what was in it."""
    made = KINDS[kind].make()
    made.save(folder / kind)
    expected = contents(made)
    assert expected[0], "a snapshot without results shows nothing"
    return (folder / kind).read_bytes(), expected


def taken_apart(data: bytes) -> tuple[bytes, dict[str, Any], bytes]:
    """The first line, the header, and the parts of a file."""
    first, line, parts = data.split(b"\n", 2)
    return first + b"\n", json.loads(line[9:]), parts


def put_together(first: bytes, header: Any, parts: bytes) -> bytes:
    """A file with a right checksum over its header."""
    text = json.dumps(header).encode()
    return first + b"%08x " % zlib.crc32(text, zlib.crc32(first)) + text + b"\n" + parts


def damaged(data: bytes, other: bytes, source: random.Random) -> bytes:
    """The file after one accident: a flipped bit, noise, a cut, something put in or swapped, another file behind it."""
    size = len(data)
    at, until = sorted((source.randrange(size), source.randrange(size + 1)))
    some = source.randrange(1, 40)
    match source.randrange(9):
        case 0 | 1:
            flipped = bytearray(data)
            flipped[at] ^= 1 << source.randrange(8)
            return bytes(flipped)
        case 2:
            return data[:at] + source.randbytes(some) + data[at + some :]
        case 3:
            return data[:at]
        case 4:
            return data[:at] + source.choice([source.randbytes(some), data[at : at + some], b"\n"]) + data[at:]
        case 5:
            return data[:at] + data[at + some :]
        case 6:
            return (
                data[:at]
                + data[until : until + some]
                + data[at + some : until]
                + data[at : at + some]
                + data[until + some :]
            )
        case 7:
            return data[:at] + source.choice([other[at:], bytes(size - at), other])
        case _:
            return source.choice([other[: source.randrange(30)], b"PK\x03\x04", b""]) + data[source.randrange(30) :]


_VALUES = (None, True, False, -1, 0, 1, 3, 10**12, 2**63, 1.5, "", "a", "Q", [], {}, [1], ["a"], {"a": 1}, [[]])


def edited(header: Any, source: random.Random) -> Any:
    """The header with one value of it, at any depth, replaced, removed or doubled."""
    copy = json.loads(json.dumps(header))
    inner = list(_containers(copy))
    place = source.choice(inner)
    if isinstance(place, list):
        i = source.randrange(len(place))
        match source.randrange(3):
            case 0:
                del place[i]
            case 1:
                place.append(place[i])
            case _:
                place[i] = source.choice(_VALUES)
    else:
        name = source.choice(list(place))
        match source.randrange(3):
            case 0:
                del place[name]
            case 1:
                place[source.choice(["a", "R", name.upper()])] = place[name]
            case _:
                place[name] = source.choice(_VALUES)
    return copy


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, dict)) and value:
        yield value
        for inner in value if isinstance(value, list) else value.values():
            yield from _containers(inner)
