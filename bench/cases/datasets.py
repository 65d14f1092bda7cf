"""Sources of rows: files named on the command line, or seeded generators of the same shape.

No data is shipped or downloaded. ``CROWN_BENCH_DATA`` may name the file or folder instead of ``--data``.
"""

from __future__ import annotations

import io
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from bench.cases.generators import chung_lu, rmat
from crown.errors import CrownError

VARIABLE = "CROWN_BENCH_DATA"


class DataError(CrownError):
    """The named data cannot be used; the message says what was expected."""


@dataclass(frozen=True)
class Graph:
    """A directed edge list without duplicates, in arrival order, and the filter constant of its queries."""

    title: str
    edges: pa.Table  # src, dst: int64
    threshold: int  # "x > threshold" keeps a tenth of the edges, by their targets


def graph(data: str | None, *, vertices: int = 75_879, edges: int = 508_837, seed: int = 7) -> Graph:
    """Returns the edge list in ``data`` (a SNAP text file, plain or zipped, or a folder with one). ``generated`` is a
    Chung–Lu graph of the given size, ``rmat`` an R-MAT graph.

    Raises DataError if there is no such file or it is not an edge list.
    """
    if data in (None, "", "generated"):
        table = _table(*chung_lu(vertices, edges, seed=seed))
        return Graph(f"generated Chung–Lu graph, {vertices:,} vertices, {table.num_rows:,} edges", table, _tenth(table))
    if data == "rmat":
        scale = max(int(np.ceil(np.log2(vertices))), 1)
        table = _distinct(*rmat(scale, edges, seed=seed))
        return Graph(f"generated R-MAT graph, scale {scale}, {table.num_rows:,} edges", table, _tenth(table))
    path = _file(Path(str(data)))
    table = _distinct(*_read(path))
    name = path.name.split(".")[0]
    # The published configurations of the paper's reference implementation use this constant on this graph.
    threshold = 32_684 if "epinions" in name.lower() and table.num_rows == 508_837 else _tenth(table)
    return Graph(f"{name}, {table.num_rows:,} edges", table, threshold)


def shuffled(graph: Graph, seed: int = 7) -> Graph:
    """Returns the graph with its edges in random order, without the locality of files."""
    order = np.random.default_rng(seed).permutation(graph.edges.num_rows)
    return Graph(f"{graph.title}, shuffled", graph.edges.take(pa.array(order)).combine_chunks(), graph.threshold)


def data_of(argument: str | None) -> str | None:
    """Returns the data that the user named on the command line or in the environment; None if there is none.

    Raises DataError if it names a path that does not exist.
    """
    named = argument or os.environ.get(VARIABLE) or None
    if named not in (None, "generated", "rmat") and not Path(str(named)).exists():
        raise DataError(f"{named}: there is no such file or folder; give a SNAP edge list, a folder, or 'generated'")
    return named


def is_folder_of(data: str | None, *names: str) -> Path | None:
    """Returns the folder below ``data`` that contains all files ``names``, or None."""
    if data is None or not Path(data).is_dir():
        return None
    for found in sorted(Path(data).rglob(names[0])):
        if all((found.parent / name).exists() for name in names):
            return found.parent
    return None


def has_graph(data: str | None) -> bool:
    """Returns True iff ``data`` names an edge list or a folder with one."""
    if data is None:
        return False
    if data in ("generated", "rmat"):
        return True
    return Path(data).is_file() or bool(_edge_lists(Path(data)))


def _edge_lists(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.rglob("*") if p.name.endswith((".txt", ".txt.zip", ".txt.gz", ".el")))


def _file(path: Path) -> Path:
    if path.is_dir():
        found = [p for p in _edge_lists(path) if "snap" in str(p.parent) or "." in p.name]
        found.sort(key=lambda p: (not p.name.endswith((".txt.zip", ".txt.gz")), p.name))
        if not found:
            raise DataError(f"{path}: no edge list (*.txt, *.txt.zip, *.txt.gz) in this folder")
        return found[0]
    if not path.exists():
        raise DataError(f"{path}: there is no such file; give a SNAP edge list, or 'generated'")
    return path


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            raw = archive.read(archive.namelist()[0])
        source: io.BytesIO | str = io.BytesIO(raw)
    else:
        source = str(path)
        with pa.input_stream(source) as stream:  # also decompresses
            raw = stream.read()
        source = io.BytesIO(raw)
    skipped = 0
    while raw.startswith((b"#", b"%")):
        skipped += 1
        raw = raw[raw.index(b"\n") + 1 :] if b"\n" in raw else b""
    delimiter = next((d for d in ("\t", ",", " ") if d.encode() in raw[:200]), "\t")
    options = pc.ParseOptions(delimiter=delimiter)
    names = pc.ReadOptions(column_names=["src", "dst"], skip_rows=skipped)
    try:
        table = pc.read_csv(source, names, options, pc.ConvertOptions(column_types={"src": "int64", "dst": "int64"}))
    except pa.ArrowInvalid as error:
        raise DataError(f"{path} is not an edge list with two integer columns: {error}") from error
    return table.column("src").to_numpy(), table.column("dst").to_numpy()


def _distinct(src: np.ndarray, dst: np.ndarray) -> pa.Table:
    _, first = np.unique(np.stack([src, dst]), axis=1, return_index=True)
    keep = np.sort(first)
    return _table(src[keep], dst[keep])


def _table(src: np.ndarray, dst: np.ndarray) -> pa.Table:
    return pa.table({"src": np.ascontiguousarray(src, np.int64), "dst": np.ascontiguousarray(dst, np.int64)})


def _tenth(edges: pa.Table) -> int:
    return int(np.quantile(edges.column("dst").to_numpy(), 0.9, method="lower"))
