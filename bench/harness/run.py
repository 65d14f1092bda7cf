"""Runs sections: data are prepared once, and cells over the same stream are measured one after the other.

At the quick scale all cells run in this process.
"""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

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
Report = Callable[[Cell], None]


def run_section(
    name: str, scale: str, data: str | None, folder: Path, wanted: Callable[[Cell], bool], report: Report
) -> Path | None:
    """Measures the cells of a section that are ``wanted`` and writes them. Returns None if there are none."""
    cells = [cell for cell in SECTIONS[name](scale) if wanted(cell)]
    if not cells:
        return None
    tqdm.monitor_interval = 0  # without a thread, which a forked process would lack
    here, done = machine(), dict[int, Cell]()
    data = unpacked(data, folder)
    groups: dict[str, list[int]] = {}
    for number, cell in enumerate(cells):
        cell["data"] = cell.get("data", data)
        key = json.dumps([cell["workload"], cell["data"], cell["options"]], sort_keys=True)
        groups.setdefault(key, []).append(number)
    bar = tqdm(total=len(cells), desc=f"{name:12}", unit="cell", dynamic_ncols=True, disable=not sys.stderr.isatty())
    for numbers in groups.values():
        left = list(numbers)
        for kind, value in _said([cells[number] for number in numbers], scale, folder):
            cell = cells[left[0]]
            at = f"{cell['workload']} {cell['engine']} {cell['mode']}"
            if kind == "progress":
                bar.set_postfix_str(f"{at} {value[0] / max(value[1], 1):.0%}")
                continue
            # Anything but a result is said of the process that all these cells have.
            for number in [left.pop(0)] if kind == "result" else left:
                result = value if kind == "result" else {"status": kind, "reason": value}
                done[number] = _titled(cells[number], scale) | result
                report(done[number])
                bar.update()
            results.write(folder, name, here, scale, [done[number] for number in sorted(done)])
            bar.set_postfix_str(at)
    bar.close()
    return folder / f"{name}.json"


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


def _titled(cell: Cell, scale: str) -> Cell:
    """Returns the cell as it is written, with the titles of its workload and its engine."""
    titles: Cell = {
        "title": WORKLOADS[cell["workload"]].title,
        "engine_title": ENGINES[cell["engine"]].title,
        "scale": scale,
    }
    return titles | {name: value for name, value in cell.items() if name not in ("data", "checked")}


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
