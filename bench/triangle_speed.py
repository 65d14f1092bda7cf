"""Speed of the triangle count on one core, against the same algorithm in plain Python and the classical strategy.

Timed: processor seconds of applying every update; building the update arrays, compiling and a warm-up run are not. The
graph stream is FIFO: edges arrive in file order and leave when the window (W = 0.2 N) is full; the query joins three
copies of the edges. "one copy" stores the shared relation once (E E E by 3 m E E + loops), "three copies" applies every
edge to R, S and T. Python does the same first-order maintenance with dictionaries, in both forms.

    python -m bench.triangle_speed --edges soc-Epinions1.txt.zip --out docs/triangle/speed.json
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.cases.triangles import hub_wall
from ivm_triangle import Triangle

WINDOW = 0.2
BATCH = 1000  # graph updates
REPEATS = 5


def read_edges(path: Path) -> np.ndarray:
    """int64[n, 2] from a text file of pairs, plain or zipped; lines that start with # are comments."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            text = archive.read(archive.namelist()[0]).decode()
    else:
        text = path.read_text()
    return np.array([line.split()[:2] for line in text.splitlines() if line and line[0] != "#"], dtype=np.int64)


def fifo(edges: np.ndarray, copies: int) -> np.ndarray:
    """Rows (relation, x, y, m) of the stream: before an edge enters a full window, the oldest leaves."""
    n, window = len(edges), int(WINDOW * len(edges))
    events = np.concatenate([edges[:, :2], edges[: n - window, :2]])
    order = np.lexsort((np.r_[np.ones(n), np.zeros(n - window)], np.r_[np.arange(n), np.arange(window, n)]))
    signs = np.r_[np.ones(n, dtype=np.int64), -np.ones(n - window, dtype=np.int64)][order]
    rows = np.empty((copies * len(order), 4), dtype=np.int64)
    for k in range(copies):
        rows[k::copies] = np.column_stack([np.full(len(order), k), events[order], signs])
    return rows


def python_first_order(rows: list[list[int]], copies: int) -> int:
    """First-order maintenance in dictionaries, the shorter list at each update."""
    out: list[dict[int, dict[int, int]]] = [defaultdict(dict) for _ in range(copies)]
    into: list[dict[int, dict[int, int]]] = [defaultdict(dict) for _ in range(copies)]
    count = 0
    for k, x, y, m in rows:
        ys, xs = out[(k + 1) % copies].get(y), into[(k + 2) % copies].get(x)
        if ys and xs:
            if len(ys) > len(xs):
                ys, xs = xs, ys
            found = 0
            for z, weight in ys.items():
                other = xs.get(z)
                if other:
                    found += weight * other
            count += found * m * (3 if copies == 1 else 1)
        total = out[k][x].get(y, 0) + m
        if copies == 1 and x == y:
            count += 3 * m * m * (total - m) + m**3
        if total:
            out[k][x][y] = into[k][y][x] = total
        else:
            del out[k][x][y], into[k][y][x]
    return count


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """Best processor time of some runs, and the result."""
    best, result = float("inf"), None
    for _ in range(REPEATS):
        start = time.process_time()
        result = run()
        best = min(best, time.process_time() - start)
    return best, result


def replay(rows: np.ndarray, **options: Any) -> Triangle:
    """All rows one by one, in order."""
    triangle = Triangle(**options)
    triangle.replay_codes(rows)
    return triangle


def batches(rows: np.ndarray, size: int, **options: Any) -> Triangle:
    """All rows in batches: weights summed, checked, deletions first."""
    triangle = Triangle(**options)
    for start in range(0, len(rows), size):
        triangle.apply_codes(rows[start : start + size])
    return triangle


def graph(edges: np.ndarray) -> dict[str, Any]:
    """Graph updates per second on the FIFO stream."""
    result: dict[str, Any] = {}
    for copies, label in ((1, "one copy"), (3, "three copies")):
        rows = fifo(edges, copies)
        updates = len(rows) // copies
        options: dict[str, Any] = {"edges": "E"} if copies == 1 else {}
        replay(rows[: 3 * BATCH], **options)
        batches(rows[: 3 * BATCH], BATCH, **options)
        listed = rows.tolist()
        plain, count = seconds(lambda rows=listed, n=copies: python_first_order(rows, n))  # type: ignore[misc]
        del listed  # millions of objects that the garbage collector would visit while batches are timed
        single, triangle = seconds(lambda rows=rows, o=options: replay(rows, **o))  # type: ignore[misc]
        batched, other = seconds(lambda rows=rows, n=copies, o=options: batches(rows, n * BATCH, **o))  # type: ignore[misc]
        assert triangle.count() == other.count() == count
        stats = triangle.stats()
        result[label] = {
            "updates": updates,
            "count": count,
            "updates_per_s": round(updates / single),
            "updates_per_s_batches": round(updates / batched),
            "python_updates_per_s": round(updates / plain),
            "times_python": round(plain / single, 1),
            "times_python_batches": round(plain / batched, 1),
            "bytes_per_tuple": round(stats["bytes"] / stats["size"]),
            "operations_per_update": round(stats["operations"] / updates, 1),
        }
    return result


def wall(k: int) -> dict[str, Any]:
    """Microseconds per toggle of R(0, 0) on the hub wall, by strategy."""
    load, updates = hub_wall(k)
    result: dict[str, Any] = {"N": len(load)}
    for label, options in (
        ("classical", {"strategy": "classical"}),
        ("IVM^eps, single", {"strategy": "eps"}),
        ("IVM^eps, double", {"strategy": "eps", "partition": "double"}),
        ("auto", {}),
    ):
        triangle = Triangle(**options)  # type: ignore[arg-type]
        triangle.apply_codes(load)
        triangle.replay_codes(updates)
        many = np.tile(updates, (100 if label == "classical" else 10_000, 1))
        best, _ = seconds(lambda rows=many, t=triangle: t.replay_codes(rows))  # type: ignore[misc]
        result[label] = {"us_per_update": round(1e6 * best / len(many), 3), "bytes": triangle.stats()["bytes"]}
    result["times_classical"] = round(result["classical"]["us_per_update"] / result["auto"]["us_per_update"])
    return result


def memory(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """(N, bytes per tuple) of the count at eps = 1/2 on hub walls."""
    points = []
    for k in sizes:
        load, _ = hub_wall(k)
        triangle = Triangle()
        triangle.apply_codes(load)
        points.append((len(load), round(triangle.stats()["bytes"] / len(load))))
    return points


def tables(result: dict[str, Any]) -> str:
    """Markdown tables of a result."""
    lines = [
        "| stored as | graph updates/s, one by one | in batches of 1000 "
        "| Python | ratio, one by one | in batches | bytes per tuple |",
        "|---|---|---|---|---|---|---|",
    ]
    for label, row in result.get("graph", {}).items():
        speeds = ("updates_per_s", "updates_per_s_batches", "python_updates_per_s")
        cells = [row[name] for name in (*speeds, "times_python", "times_python_batches")]
        lines.append(f"| {label} | " + " | ".join(f"{cell:,}" for cell in cells) + f" | {row['bytes_per_tuple']} |")
    walls = {label: row for label, row in result["hub_wall"].items() if isinstance(row, dict)}
    lines += ["", f"| hub wall, N = {result['hub_wall']['N']:,} | µs per toggle |", "|---|---|"]
    lines += [f"| {label} | {row['us_per_update']:,} |" for label, row in walls.items()]
    sizes = result["memory"]
    lines += ["", "| N | " + " | ".join(f"{n:,}" for n, _ in sizes) + " |", "|---|" + "---|" * len(sizes)]
    lines.append("| bytes per tuple, count at eps = 1/2 | " + " | ".join(str(b) for _, b in sizes) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all and write JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--edges", type=Path, help="edge list, text or zipped text; without it the graph part is left out"
    )
    parser.add_argument("--wall", type=int, default=3264, help="k of the hub wall, N = 3 k^2 / 32 (default: N = 10^6)")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    options = parser.parse_args(arguments)
    result: dict[str, Any] = {"machine": f"{platform.machine()} {platform.system()} Python {platform.python_version()}"}
    if options.edges is not None:
        result["graph"] = graph(read_edges(options.edges))
    result["hub_wall"] = wall(options.wall)
    result["memory"] = memory((options.wall // 8, options.wall // 4, options.wall // 2, options.wall))
    text = json.dumps(result, indent=1)
    print(tables(result))
    if options.out is not None:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
