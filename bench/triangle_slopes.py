"""Curves for docs/triangle.md: operations, space and delay of triangle maintenance against N, counted, not timed.

Compared, on the same adversarial instances: first-order maintenance ("classical"), IVM^eps with single and double
partitioning, and set intersection tables ("sit", the default for counts). A hash probe, a list step and a map write are
one operation each; rebalancing is included where the stream causes it. Fixed seeds; nothing is timed, so the curves
are the same on every machine.

    python -m bench.triangle_slopes --out docs/triangle

writes curves.json and one SVG per figure; the page's tables are what `--tables` prints from the JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.cases import triangles as instances
from ivm_triangle import Triangle

STRATEGIES: dict[str, dict[str, Any]] = {
    "classical": {"strategy": "classical"},
    "IVM^eps, single": {"strategy": "eps"},
    "IVM^eps, double": {"strategy": "eps", "partition": "double"},
    "set intersection": {"strategy": "sit"},
}
UPDATES: dict[str, tuple[str, Callable[[int], instances.Instance], tuple[int, ...]]] = {
    "two_lists": ("two lists, toggle R(0,0)", instances.two_lists, (500, 1125, 2000, 4500, 8000, 18000)),
    "hub_wall": ("hub wall, toggle R(0,0)", instances.hub_wall, (64, 96, 128, 192, 256, 384, 512)),
    "light_wall": ("light wall, toggle R(0,0)", instances.light_wall, (64, 96, 128, 192, 256, 384)),
    "sit_wall": ("heavy neighbours, toggle S(0,0)", instances.sit_wall, (64, 96, 128, 192, 256, 384)),
    "oumv": ("vector-matrix-vector rounds", lambda n: instances.oumv(n, 20), (32, 48, 64, 96, 128, 192)),
    "cube": ("cube, random inserts", instances.cube, (12, 18, 24, 36, 48, 72)),
    "thrash": ("swinging degree", lambda k: instances.thrash(k, 3), (64, 96, 128, 192, 256)),
    "grow_shrink": ("grow and shrink", lambda n: instances.grow_shrink(n, 2), (1000, 2250, 4000, 9000, 16000)),
    "zipf": ("Zipf(1) ends, 20% deletes", lambda n: instances.zipf(n, n // 8), (2000, 4500, 8000, 18000, 32000)),
}
EPSILONS = (0.25, 0.4, 0.5, 0.6, 0.75)
WALL_SIZES = (4000, 9000, 16000, 36000, 64000, 144000)

Points = list[tuple[int, float]]


def slope(points: Sequence[tuple[int, float]]) -> float:
    """Least squares slope of log y on log x; 0 where y is constant at zero."""
    x, y = np.array(points, dtype=float).T
    return 0.0 if not y.any() else float(np.polyfit(np.log(x), np.log(np.maximum(y, 1e-9)), 1)[0])


def operations(
    make: Callable[[int], instances.Instance], sizes: Sequence[int], rotation: int = 0, **options: Any
) -> tuple[Points, dict[str, Any]]:
    """(largest |D|, operations per update) for each size, and the statistics of the last run."""
    points: Points = []
    stats: dict[str, Any] = {}
    for size in sizes:
        load, updates = make(size)
        triangle = Triangle(**options)
        if len(load):
            triangle.apply_codes(instances.rotate(load, rotation))
        before = triangle.stats()
        triangle.replay_codes(instances.rotate(updates, rotation))
        stats = triangle.stats()
        stats["updates"] -= before["updates"]
        stats["major_rebalancings"] -= before["major_rebalancings"]
        stats["presence_flips"] -= before["presence_flips"]
        points.append((stats["peak"], (stats["operations"] - before["operations"]) / len(updates)))
    return points, stats


def delays(make: Callable[[int], np.ndarray], sizes: Sequence[int], outputs: str) -> Points:
    """(|D|, largest number of operations between two results)."""
    points: Points = []
    for size in sizes:
        triangle = Triangle(outputs, strategy="eps")
        triangle.apply_codes(make(size))
        for _ in triangle.results():
            pass
        points.append((triangle.stats()["size"], triangle.stats()["max_delay"]))
    return points


def space(make: Callable[[int], np.ndarray], sizes: Sequence[int], **options: Any) -> dict[str, Points]:
    """(|D|, entries of all views) and (|D|, bytes of state)."""
    entries: Points = []
    used: Points = []
    for size in sizes:
        triangle = Triangle(**options)
        triangle.apply_codes(make(size))
        stats = triangle.stats()
        entries.append((stats["size"], sum(stats["views"].values())))
        used.append((stats["size"], stats["bytes"]))
    return {"entries": entries, "bytes": used}


def curve(points: Points) -> dict[str, Any]:
    """Points with their fitted slope, for JSON."""
    return {"points": points, "slope": round(slope(points), 3)}


def measure() -> dict[str, Any]:
    """All curves."""
    result: dict[str, dict[str, Any]] = {"updates": {}, "epsilon": {}, "delay": {}, "space": {}, "outputs": {}}
    for name, (title, make, sizes) in UPDATES.items():
        curves: dict[str, Any] = {}
        result["updates"][name] = {"title": title, "curves": curves}
        for label, options in STRATEGIES.items():
            points, stats = operations(make, sizes, **options)
            curves[label] = {
                **curve(points),
                "majors": stats["major_rebalancings"],
                "moved_per_update": round(stats["tuples_moved"] / stats["updates"], 3),
            }
    for epsilon in EPSILONS:
        result["epsilon"][str(epsilon)] = {
            partition: curve(
                operations(
                    lambda n, e=epsilon: instances.wall(n, e),  # type: ignore[misc]
                    WALL_SIZES,
                    epsilon=epsilon,
                    strategy="eps",
                    partition=partition,
                )[0]
            )
            for partition in ("single", "double")
        }
    for outputs in ("a", "ab", "abc"):
        result["outputs"][outputs] = {
            name: curve(operations(UPDATES[name][1], UPDATES[name][2], outputs=outputs, strategy="eps")[0])
            for name in ("hub_wall", "light_wall", "cube")
        }
    sizes = (32, 48, 64, 96, 128, 192)
    result["delay"] = {
        "Delta2(a, b), complete thin": curve(delays(instances.delay_pairs, sizes, "ab")),
        "Delta1(a), complete flat": curve(delays(instances.delay_values, sizes, "a")),
        "Delta3(a, b, c), complete flat": curve(delays(instances.delay_values, sizes, "abc")),
    }
    for label, options in STRATEGIES.items():
        measured = space(instances.space_wall, sizes, **options)
        result["space"][label] = {
            "entries": measured["entries"],
            **curve(measured["bytes"]),
            "star entries": space(instances.star, (4000,), **options)["entries"][0][1],
        }
    return result


def draw(result: dict[str, Any], folder: Path) -> None:
    """One SVG per figure."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "triangle", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter

    def figure(name: str, title: str, ylabel: str, curves: dict[str, dict[str, Any]]) -> None:
        shape, axes = plt.subplots(figsize=(4.6, 3.4))
        for (label, data), marker in zip(curves.items(), "os^Dvx", strict=False):
            x, y = zip(*data["points"], strict=True)
            axes.loglog(x, y, marker=marker, markersize=4, label=f"{label} (slope {abs(data['slope']):.2f})")
        axes.set(title=title, xlabel="N, tuples in R, S, T", ylabel=ylabel)
        axes.xaxis.set_minor_formatter(NullFormatter())  # their labels run into each other
        bottom, top = axes.get_ylim()
        axes.set_ylim(bottom, top * (top / bottom) ** 0.45)  # room for the legend
        axes.legend(fontsize=7, loc="upper left")
        shape.tight_layout()
        shape.savefig(folder / f"{name}.svg", metadata={"Date": None})
        plt.close(shape)

    for name, chosen in result["updates"].items():
        figure(name, chosen["title"], "operations per update", chosen["curves"])
    figure(
        "epsilon",
        "worst case per eps, single partition",
        "operations per update",
        {f"eps = {e}": curves["single"] for e, curves in result["epsilon"].items()},
    )
    figure("delay", "largest delay", "operations between results", result["delay"])
    figure("space", "state on the space wall", "bytes", result["space"])


def tables(result: dict[str, Any]) -> str:
    """Markdown tables of all slopes."""
    lines = ["| instance | " + " | ".join(STRATEGIES) + " |", "|---|" + "---|" * len(STRATEGIES)]
    for chosen in result["updates"].values():
        cells = [f"{abs(c['slope']):.2f} ({c['points'][-1][1]:.0f})" for c in chosen["curves"].values()]
        lines.append(f"| {chosen['title']} | " + " | ".join(cells) + " |")
    lines += ["", "| eps | max{eps, 1 - eps} | single | double |", "|---|---|---|---|"]
    for epsilon, curves in result["epsilon"].items():
        bound = max(float(epsilon), 1 - float(epsilon))
        lines.append(f"| {epsilon} | {bound:g} | {curves['single']['slope']:.2f} | {curves['double']['slope']:.2f} |")
    lines += ["", "| free variables | hub wall | light wall | cube |", "|---|---|---|---|"]
    for outputs, curves in result["outputs"].items():
        lines.append(f"| {outputs} | " + " | ".join(f"{c['slope']:.2f}" for c in curves.values()) + " |")
    lines += ["", "| enumeration | slope of the largest delay | at the largest N |", "|---|---|---|"]
    for label, data in result["delay"].items():
        lines.append(f"| {label} | {abs(data['slope']):.2f} | {data['points'][-1][1]:.0f} |")
    lines += ["", "| space wall | bytes: slope | view entries at the largest N | on the star |", "|---|---|---|---|"]
    for label, data in result["space"].items():
        lines.append(f"| {label} | {data['slope']:.2f} | {data['entries'][-1][1]:.0f} | {data['star entries']:.0f} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or only print tables of what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path("docs/triangle"), help="folder for curves.json and the figures"
    )
    parser.add_argument("--tables", action="store_true", help="print Markdown tables from an existing curves.json")
    options = parser.parse_args(arguments)
    path = options.out / "curves.json"
    if options.tables:
        print(tables(json.loads(path.read_text())))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    result = measure()
    path.write_text(json.dumps(result, indent=1) + "\n")
    draw(result, options.out)
    print(tables(result))


if __name__ == "__main__":
    main()
