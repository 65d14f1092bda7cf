"""Runs sections: data are prepared once, and cells over the same stream are measured one after the other.

At the quick scale all cells run in this process.
"""

from __future__ import annotations

import json
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

import crown
from bench.cases import tpcds
from bench.cases.datasets import DataError
from bench.cases.tpch import tables as tpch
from bench.cases.workloads import WORKLOADS
from bench.harness import results
from bench.harness.cell import together
from bench.harness.forked import direct, forked
from bench.harness.machine import machine
from bench.harness.sections.catalogue import SECTIONS
from bench.harness.sections.cells import Cell
from bench.subjects.catalogue import ENGINES
from bench.subjects.peers.foreign import interpreter
from bench.subjects.subject import SkipError

TPCDS_SCALE = {"quick": tpcds.SMALL, "normal": tpcds.SMALL, "full": 1.0}
TPCH_SCALE = {"quick": 0.001, "normal": 0.05, "full": 1.0}
DAY_S = 86_400.0
Report = Callable[[Cell], None]


def cells_of(name: str, scale: str, wanted: Callable[[Cell], bool]) -> list[Cell]:
    """Returns the cells of a section that are ``wanted``, with the titles of their workloads and engines."""
    return [
        {
            "title": WORKLOADS[cell["workload"]].title,
            "engine_title": ENGINES[cell["engine"]].title,
            "scale": scale,
            **cell,
        }
        for cell in SECTIONS[name](scale)
        if wanted(cell)
    ]


def run_section(
    name: str, cells: Sequence[Cell], data: str | None, folder: Path, report: Report, resume: bool = False
) -> Path:
    """Measures the cells of a section and writes them. With ``resume``, keeps those that its file has, if it is less
    than a day old, but for those that failed.
    """
    scale, path = cells[0]["scale"], folder / f"{name}.json"
    here, done = machine(), dict[int, Cell]()
    if resume and path.exists() and time.time() - path.stat().st_mtime < DAY_S:
        file = results.read_file(path)
        kept = {results.key(c): c for c in file["cells"] if file["scale"] == scale and c["status"] != "failed"}
        here = file["machine"] if kept else here
        done = {number: kept[results.key(c)] for number, c in enumerate(cells) if results.key(c) in kept}
    if scale != "quick":
        _load_kernels()
    tqdm.monitor_interval = 0  # without a thread, which a forked process would lack
    data = unpacked(data, folder)
    groups: dict[str, list[int]] = {}
    for number, cell in enumerate(cells):
        cell["data"] = cell.get("data", data)
        if number not in done:
            shared = json.dumps([cell["workload"], cell["data"], cell["options"]], sort_keys=True)
            groups.setdefault(shared, []).append(number)
    hidden = not sys.stderr.isatty()
    bar = tqdm(total=len(cells), initial=len(done), desc=f"{name:12}", unit="cell", dynamic_ncols=True, disable=hidden)
    for left in groups.values():
        for kind, value in _said([cells[number] for number in left], scale, folder):
            if kind == "progress":
                cell = cells[left[0]]
                share = value[0] / max(value[1], 1)
                bar.set_postfix_str(f"{cell['workload']} {cell['engine']} {cell['mode']} {share:.0%}")
                continue
            # Anything but a result is said of the process that all these cells have.
            for number in left[:1] if kind == "result" else list(left):
                left.remove(number)
                asked = {name: value for name, value in cells[number].items() if name not in ("data", "checked")}
                done[number] = asked | (value if kind == "result" else {"status": kind, "reason": value})
                report(done[number])
                bar.update()
            results.write(folder, name, here, scale, [done[number] for number in sorted(done)])
    bar.close()
    return path


def seconds_left(sections: Mapping[str, Sequence[Cell]], folder: Path, mean: float) -> float:
    """Returns about how long sections take: as long per cell as before, by their files, or else ``mean``."""
    total = 0.0
    for name, cells in sections.items():
        path = folder / f"{name}.json"
        before = results.read_file(path)["cells"] if path.exists() else []
        took = [sum(cell["spent_s"].values()) for cell in before if "spent_s" in cell]
        total += len(cells) * (sum(took) / len(took) if took else mean)
    return total


@cache
def _load_kernels() -> None:
    """Loads the kernels that all views have, which the processes of cells then have, too."""
    schema = {"R": {"a": "int64", "b": "int64"}, "S": {"b": "int64", "c": "int64"}}
    view = crown.view("Q(a, b, c) :- R(a, b), S(b, c).", schema)
    view.apply({"R": [{"a": 1, "b": 2}], "S": [{"b": 2, "c": 3}]})


def _said(cells: Sequence[Cell], scale: str, folder: Path) -> Iterator[tuple[str, Any]]:
    """Yields what the process of cells over the same stream says, or why there is none."""
    try:
        options = _prepared(cells[0], scale, folder)
    except FileNotFoundError:
        yield "skipped", "TPC-H needs tpchgen-cli (pip install tpchgen-cli)"
    except (DataError, SkipError) as error:
        yield "skipped", str(error)
    except Exception as error:
        yield "failed", f"its data were not prepared: {error}"
    else:
        apart = direct if scale == "quick" else forked  # a process takes longer than a quick measurement
        yield from apart(partial(together, [cell | {"options": options} for cell in cells], apart))


def _prepared(cell: Cell, scale: str, folder: Path) -> dict[str, Any]:
    """Returns the options of a cell with its data, which are generated unless they exist."""
    options, kind = dict(cell["options"]), WORKLOADS[cell["workload"]].kind
    if kind == "tpch":
        factor = float(options.get("scale_factor", TPCH_SCALE[scale]))
        options["tpch"] = str(tpch.prepare(folder / "data", factor))
    if kind == "tpcds":
        options["tpcds_scale"] = TPCDS_SCALE[scale]
        python = interpreter("duckdb_extension_tpcds", "tpcds")
        options["tpcds"] = str(tpcds.prepare(folder / "data", TPCDS_SCALE[scale], python))
    return options


def unpacked(data: str | None, folder: Path) -> str | None:
    """Returns ``data``. If the folder contains a packed SNB data set (``*snb*.tar.gz``), unpacks it next to the
    results, links the folder's other files beside it, and returns that folder.
    """
    if data is None or not Path(data).is_dir():
        return data
    archives = sorted(Path(data).rglob("*snb*.tar.gz"))
    if not archives:
        return data
    target = folder / "data" / "given"
    if not target.exists():
        target.mkdir(parents=True)
        with tarfile.open(archives[0]) as archive:
            archive.extractall(target, filter="data")
        for other in Path(data).rglob("*"):
            if other.is_file() and other not in archives:
                place = target / other.relative_to(data)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(other.resolve())
    return str(target)
