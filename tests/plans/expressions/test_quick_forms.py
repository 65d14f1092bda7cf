"""Texts and moments of common forms are computed for whole columns, with the values that each has by itself."""

from __future__ import annotations

import random
import zoneinfo
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from plans.expressions.casts import reading
from plans.expressions.functions.clock import parsing, zones
from plans.expressions.functions.distinct import by_distinct
from plans.expressions.functions.numbers import hashes
from plans.expressions.functions.texts import strings, words

WALL, INSTANT = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
PLACES = (0, 1, 2, 3, -1, -2, -4, 2**31 - 1, -(2**31), None)
DAY = 86_400_000_000


def _compare(found: pa.Array, values: pa.Array, one: Callable[..., Any], type_: pa.DataType, *others: Any) -> None:
    """Compares values with those of a function that is called once per distinct value."""
    given = values.view(pa.int64()) if pa.types.is_timestamp(values.type) else values
    expected = by_distinct(one, type_, given, *map(pa.scalar, others)).to_pylist()
    pairs = zip(values.to_pylist() if given is values else given.to_pylist(), found.to_pylist(), expected, strict=True)
    assert not [pair for pair in pairs if pair[1] != pair[2]]


def _slices(values: pa.Array) -> list[pa.Array]:
    return [values, values.slice(1, len(values) - 2), values.slice(0, 0), pa.nulls(2, values.type)]


def _days(seed: int, form: str) -> list[str | None]:
    """Returns texts of a form, of days and times that exist and that do not, and texts that are nearly so."""
    rng, texts = random.Random(seed), [None, "", "x", "0-00", "é020"]
    for _ in range(1_500):
        text = form.format(
            y=rng.choice([0, 1, 1582, 1900, 1970, 2000, 2023, 2024, 9999]), M=rng.randint(0, 13), d=rng.randint(0, 32),
            H=rng.randint(0, 25), m=rng.randint(0, 61), s=rng.randint(0, 61), S=rng.randint(0, 999),
        )  # fmt: skip
        if rng.random() < 0.3:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice("0 9-+x/é") + text[at + rng.randint(0, 1) :]
        texts.append(text)
    return texts


@pytest.mark.parametrize("end", ["", " ", "T", "x", " {H:02}:{m:02}:{s:02}", "T{H:02}:{m:02}:{s:02}.{S}", " {H:02}Z"])
def test_days_and_moments(end: str) -> None:
    for texts in _slices(pa.array(_days(1, "{y:04}-{M:02}-{d:02}" + end), pa.string())):
        _compare(reading.read(texts, pa.date32()).view(pa.int32()), texts, reading._date, pa.int32())
        for type_, zoned in ((WALL, False), (INSTANT, True)):
            found = reading.read(texts, type_).view(pa.int64())
            _compare(found, texts, lambda text, zoned=zoned: reading._moment(text, zoned), pa.int64())


@pytest.mark.parametrize(("precision", "scale"), [(10, 2), (38, 0), (38, 20), (5, 5), (1, 0), (18, 18), (19, 4)])
def test_decimals(precision: int, scale: int) -> None:
    rng = random.Random(2)
    texts = [None, "", "-", "1.", "+.5", "-0.00", "007.10", "9" * 40, "1" * 20 + ".5", "99.995", " 1 ", "1e3", "é"]
    texts += ["".join(rng.choices("0123456789.+-", k=rng.randint(1, 8))) for _ in range(2_000)]
    texts += [f"{rng.randint(-(10**6), 10**6)}.{rng.randint(0, 10**4)}" for _ in range(500)]
    type_ = pa.decimal128(precision, scale)
    for values in _slices(pa.array(texts)):
        _compare(reading.read(values, type_), values, lambda text: reading._decimal(text, precision, scale), type_)


@pytest.mark.parametrize(
    ("pattern", "form"),
    [
        ("yyyy-MM-dd", "{y:04}-{M:02}-{d:02}"),
        ("dd/MM/yyyy HH:mm:ss", "{d:02}/{M:02}/{y:04} {H:02}:{m:02}:{s:02}"),
        ("yyyyMMddHHmmssSSS", "{y:04}{M:02}{d:02}{H:02}{m:02}{s:02}{S:03}"),
        ("HH:mm", "{H:02}:{m:02}"),
        ("'é0'yyyy", "é0{y:04}"),
        ("d/M/yyyy", "{d}/{M}/{y:04}"),
        ("yyyy-MM[-dd]", "{y:04}-{M:02}-{d:02}"),
        ("''", "x{y}"),
    ],
)
def test_texts_of_a_pattern(pattern: str, form: str) -> None:
    for texts in _slices(pa.array(_days(3, form), pa.string())):
        _compare(parsing._moments(texts, pa.scalar(pattern)), texts, parsing.read, pa.int64(), pattern)


def test_parts_of_texts() -> None:
    texts = pa.array(["", "a", "a/b", "/", "//a", "aaa", "é/ü/x", None, "a/b/c/d/"])
    for values in _slices(texts):
        for delimiter in ("", "/", "aa", "é", "/b"):
            for place in PLACES:
                given = pa.scalar(delimiter), pa.scalar(place, pa.int32())
                expected = by_distinct(strings._split_part, pa.string(), values, *given)
                assert strings._split_parts(pa.string(), values, *given) == expected, (delimiter, place)
                expected = by_distinct(words._nth, pa.string(), values, *given)
                assert words._nths(pa.string(), values, *given) == expected, (delimiter, place)


@pytest.mark.parametrize("zone", ["Europe/Paris", "Africa/Freetown", "Australia/Lord_Howe", "PST", "+05:30", "Nowhere"])
@pytest.mark.parametrize("wall", [False, True])
def test_moments_in_zones(zone: str, wall: bool) -> None:
    rng = random.Random(4)
    hours = [rng.randint(-3_000_000, 3_000_000) * 3_600_000_000 + rng.choice((-1, 0, 1)) for _ in range(3_000)]
    year = range(1_700_000_000_000_000, 1_731_600_000_000_000, 1_800_000_000)  # with both changes of the clocks
    values = pa.array([*hours, *year, None, 2**63 - 1, -(2**63) + 1], pa.int64()).view(INSTANT)

    def one(micros: int) -> int | None:
        there = zones.zone_of(zone)
        if there is None:
            return None
        moved = micros + (-1 if wall else 1) * zones._ahead(micros, there, wall)
        return moved if abs(moved) < 2**63 else None

    for given in _slices(values):
        found = zones._shifted(wall)(INSTANT, given, pa.scalar(zone)).view(pa.int64())
        _compare(found, given, one, pa.int64())


@pytest.mark.parametrize("kind", [hashes._Murmur, hashes._XX])
def test_hashes_of_texts(kind: type[hashes._Murmur] | type[hashes._XX]) -> None:
    rng = random.Random(6)
    texts = [None, b"", *(rng.randbytes(size) for size in (*range(140), *rng.choices(range(300), k=200)))]
    rng.shuffle(texts)
    for values in (*_slices(pa.array(texts, pa.binary())), pa.array([b"", b""]), pa.array([b"x"])):
        seeds = np.array([rng.getrandbits(32) for _ in range(len(values))], kind.word)
        with np.errstate(over="ignore"):
            found = hashes._of_texts(kind, values, seeds).tolist()
        for text, seed, one in zip(values.to_pylist(), seeds.tolist(), found, strict=True):
            assert text is None or one == kind.of_bytes(text, seed)


def test_no_clock_changes_twice_within_a_day() -> None:
    """A zone is ahead of UTC by the same time all day if it is at both midnights."""
    close = []
    for name in random.Random(5).sample(sorted(zoneinfo.available_timezones()), 15):
        zone = zones.zone_of(name)
        hours = [zones._ahead(hour * DAY // 24, zone, False) for hour in range(24 * 18_000, 24 * 18_800)]
        changes = [hour for hour, (one, two) in enumerate(pairwise(hours)) if one != two]
        close += [name for one, two in pairwise(changes) if two - one < 24]
    assert not close
