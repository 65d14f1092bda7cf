"""The social network workloads: reads an LDBC SNB data set, or generates a small one of the same shape.

Rows live 180 days from their creation; tags exist from the start and stay. ``knows`` has both directions, a message is
a post or a comment. Source of stream and queries: the CROWN paper's published experiments over the LDBC Social Network
Benchmark (Interactive v1 column layout).
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from bench.cases.datasets import is_folder_of
from bench.cases.generators import chung_lu
from bench.cases.streams import Stream, timed

LIFE_MS = 180 * 24 * 3600 * 1000
FILES = ("person_0_0.csv", "person_knows_person_0_0.csv", "comment_0_0.csv", "post_0_0.csv")
SCHEMA = {
    "person": {"p_personid": "int64", "p_firstname": "string", "p_lastname": "string"},
    "knows": {"k_person1id": "int64", "k_person2id": "int64"},
    "message": {"m_messageid": "int64", "m_creatorid": "int64", "m_c_replyof": "int64"},
    "message_tag": {"mt_messageid": "int64", "mt_tagid": "int64"},
    "tag": {"t_tagid": "int64", "t_name": "string"},
}
Tables = dict[str, pa.Table]
Times = dict[str, np.ndarray]
_NEVER = np.iinfo(np.int64).max


def stream(data: str | None, persons: int = 2_000) -> Stream:
    """Returns the stream over the data set below the folder ``data``, or over a generated one with ``persons``
    persons.
    """
    folder = is_folder_of(data, *FILES)
    if folder is None:
        return _as_stream(f"generated SNB-shaped data, {persons:,} persons", *_generated(persons))
    return _as_stream(f"LDBC SNB data set in {folder.parent.name}", *_read(folder))


def near_persons(stream: Stream) -> int:
    """Returns the filter constant of Q2 to Q4: a tenth of the persons have a smaller id."""
    return int(np.quantile(stream.tables["person"].column("p_personid").to_numpy(), 0.1, method="higher"))


def _as_stream(title: str, tables: Tables, born: Times) -> Stream:
    dies = {name: np.where(instants < 0, _NEVER, instants + LIFE_MS) for name, instants in born.items()}
    return timed(title, tables, born, dies)


def _generated(persons: int, seed: int = 11) -> tuple[Tables, Times]:
    rng = np.random.default_rng(seed)
    year = 2 * 365 * 24 * 3600 * 1000
    ids = rng.permutation(persons * 7)[:persons].astype(np.int64) + 1
    first, second = chung_lu(persons, persons * 6, exponent=2.5, seed=seed)
    one, two = np.minimum(first, second), np.maximum(first, second)
    _, keep = np.unique(one * persons + two, return_index=True)
    one, two = one[keep], two[keep]
    posts = persons * 25
    tags = max(persons // 4, 10)
    popular = np.arange(1, tags + 1) ** -0.8
    creator = ids[rng.integers(0, persons, posts)]
    message_ids = np.arange(posts, dtype=np.int64) + 1_000_000
    reply = rng.random(posts) < 0.6
    tagged = np.repeat(np.arange(posts), rng.integers(0, 3, posts))
    tag_of = rng.choice(tags, len(tagged), p=popular / popular.sum())
    _, keep = np.unique(tagged * tags + tag_of, return_index=True)
    tagged, tag_of = tagged[np.sort(keep)], tag_of[np.sort(keep)]
    names = pa.array([f"First{i % 97}" for i in range(persons)]), pa.array([f"Last{i % 311}" for i in range(persons)])
    tables = {
        "tag": pa.table({"t_tagid": np.arange(tags), "t_name": [f"tag {i}" for i in range(tags)]}),
        "person": pa.table({"p_personid": ids, "p_firstname": names[0], "p_lastname": names[1]}),
        "knows": pa.table({"k_person1id": np.r_[ids[one], ids[two]], "k_person2id": np.r_[ids[two], ids[one]]}),
        "message": pa.table(
            {
                "m_messageid": message_ids,
                "m_creatorid": creator,
                "m_c_replyof": pa.array(np.maximum(message_ids - 17, 1), mask=~reply),
            }
        ),
        "message_tag": pa.table({"mt_messageid": message_ids[tagged], "mt_tagid": tag_of}),
    }
    joined, met = np.sort(rng.integers(0, year, persons)), np.sort(rng.integers(0, year, len(one)))
    written = np.sort(rng.integers(0, year, posts))
    times = {
        "tag": np.full(tags, -1),
        "person": joined,
        "knows": np.r_[met, met],
        "message": written,
        "message_tag": written[tagged],
    }
    return tables, times


def _read(folder: Path) -> tuple[Tables, Times]:
    """Returns the rows of the bulk load's files and of the update streams beside them."""
    people = _csv(folder / "person_0_0.csv", ["id", "firstName", "lastName", "creationDate"])
    knows = _csv(
        folder / "person_knows_person_0_0.csv", ["from", "to", "creationDate"], header=["from", "to", "creationDate"]
    )
    comments = _csv(folder / "comment_0_0.csv", ["id", "creationDate", "creator", "replyOfPost", "replyOfComment"])
    posts = _csv(folder / "post_0_0.csv", ["id", "creationDate", "creator"])
    tags = _csv(folder.parent / "static" / "tag_0_0.csv", ["id", "name"])
    tag_links = [
        _csv(folder / f"{kind}_hasTag_tag_0_0.csv", ["message", "tag"], header=["message", "tag"])
        for kind in ("post", "comment")
    ]
    rows: dict[str, list[tuple[Any, ...]]] = {"person": [], "knows": [], "message": [], "message_tag": []}
    for row in zip(*(people.column(c).to_pylist() for c in ("id", "firstName", "lastName")), _ms(people), strict=True):
        rows["person"].append(row)
    for one, two, at in zip(knows["from"].to_pylist(), knows["to"].to_pylist(), _ms(knows), strict=True):
        rows["knows"] += [(one, two, at), (two, one, at)]
    for row in zip(posts["id"].to_pylist(), posts["creator"].to_pylist(), [None] * len(posts), _ms(posts), strict=True):
        rows["message"].append(row)
    replied = [
        a if a is not None else b
        for a, b in zip(*(comments[c].to_pylist() for c in ("replyOfPost", "replyOfComment")), strict=True)
    ]
    rows["message"] += zip(
        comments["id"].to_pylist(), comments["creator"].to_pylist(), replied, _ms(comments), strict=True
    )
    written = {row[0]: row[-1] for row in rows["message"]}
    for links in tag_links:
        for message, tag in zip(links["message"].to_pylist(), links["tag"].to_pylist(), strict=True):
            rows["message_tag"].append((message, tag, written[message]))
    for path in sorted((folder.parent / "update_streams").glob("*.csv")):
        _updates(path, rows)
    tables: Tables = {"tag": pa.table({"t_tagid": tags["id"], "t_name": tags["name"]})}
    times: Times = {"tag": np.full(tags.num_rows, -1)}
    for name, found in rows.items():
        found.sort(key=lambda row: row[-1])
        kinds = {"int64": pa.int64(), "string": pa.string()}
        tables[name] = pa.table(
            {c: pa.array([row[i] for row in found], kinds[t]) for i, (c, t) in enumerate(SCHEMA[name].items())}
        )
        times[name] = np.array([row[-1] for row in found], np.int64)
    return tables, times


def _updates(path: Path, rows: dict[str, list[tuple[Any, ...]]]) -> None:
    """Appends the insert operations of an update stream to ``rows``: 1 person, 6 post, 7 comment, 8 friendship."""
    for line in path.read_text(encoding="utf-8").splitlines():
        f = line.split("|")
        at = int(f[0])
        if f[2] == "1":
            rows["person"].append((int(f[3]), f[4], f[5], at))
        elif f[2] == "8":
            rows["knows"] += [(int(f[3]), int(f[4]), at), (int(f[4]), int(f[3]), at)]
        elif f[2] in ("6", "7"):
            creator = int(f[11] if f[2] == "6" else f[9])
            reply = None
            if f[2] == "7":
                reply = max(int(f[11]), int(f[12]))
            rows["message"].append((int(f[3]), creator, reply, at))
            tags = f[14] if f[2] == "6" else f[13]
            rows["message_tag"] += [(int(f[3]), int(tag), at) for tag in tags.split(";") if tag]


def _csv(path: Path, columns: list[str], header: list[str] | None = None) -> pa.Table:
    read = csv.ReadOptions(column_names=header, skip_rows=1) if header else csv.ReadOptions()
    convert = csv.ConvertOptions(include_columns=columns, column_types={"creationDate": pa.string()}, null_values=[""])
    raw = io.BytesIO(path.read_bytes())
    return csv.read_csv(raw, read, csv.ParseOptions(delimiter="|", quote_char=False), convert)


def _ms(table: pa.Table) -> list[int]:
    text = pc.utf8_slice_codeunits(table.column("creationDate"), 0, 23)
    return pc.cast(text, pa.timestamp("ms")).cast(pa.int64()).to_pylist()
