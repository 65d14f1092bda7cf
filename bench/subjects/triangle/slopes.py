"""Curves of triangle maintenance: counted operations, space and delay against N.

Compared on the same adversarial instances: first-order maintenance ("classical"), IVM^eps with single and double
partitioning, and set intersection tables (the default for counts). A hash probe, a list step and a map write are one
operation each. Rebalancing is included if the stream causes it. Seeds are fixed and nothing is timed, so the curves are
the same on every machine. One cell is one figure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.cases import triangles as instances
from bench.cases.triangles import UPDATES
from bench.subjects.subject import Progress
from ivm_triangle import Triangle

STRATEGIES: dict[str, dict[str, Any]] = {
    "classical": {"strategy": "classical"},
    "IVM^eps, single": {"strategy": "eps"},
    "IVM^eps, double": {"strategy": "eps", "partition": "double"},
    "set intersection": {"strategy": "sit"},
}
EPSILONS = (0.25, 0.4, 0.5, 0.6, 0.75)
WALL_SIZES = (4000, 9000, 16000, 36000, 64000, 144000)
SQUARE_SIZES = (32, 48, 64, 96, 128, 192)
DELAYS: dict[str, tuple[Callable[[int], np.ndarray], str]] = {
    "Delta2(a, b), complete thin": (instances.delay_pairs, "ab"),
    "Delta1(a), complete flat": (instances.delay_values, "a"),
    "Delta3(a, b, c), complete flat": (instances.delay_values, "abc"),
}

Points = list[tuple[int, float]]
Curves = dict[str, dict[str, Any]]


def slope(points: Sequence[tuple[int, float]]) -> float:
    """Returns the least squares slope of log y on log x; 0 if y is constant at zero."""
    x, y = np.array(points, dtype=float).T
    return 0.0 if not y.any() else float(np.polyfit(np.log(x), np.log(np.maximum(y, 1e-9)), 1)[0])


def operations(
    make: Callable[[int], instances.Instance], sizes: Sequence[int], rotation: int = 0, **options: Any
) -> tuple[Points, dict[str, Any]]:
    """Returns (largest |D|, operations per update) for each size, and the statistics of the last run."""
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
    """Returns (|D|, largest number of operations between two results) for each size."""
    points: Points = []
    for size in sizes:
        triangle = Triangle(outputs, strategy="eps")
        triangle.apply_codes(make(size))
        for _ in triangle.results():
            pass
        points.append((triangle.stats()["size"], triangle.stats()["max_delay"]))
    return points


def space(make: Callable[[int], np.ndarray], sizes: Sequence[int], **options: Any) -> dict[str, Points]:
    """Returns (|D|, entries of all views) and (|D|, bytes of state) for each size."""
    entries: Points = []
    used: Points = []
    for size in sizes:
        triangle = Triangle(**options)
        triangle.apply_codes(make(size))
        stats = triangle.stats()
        entries.append((stats["size"], sum(stats["views"].values())))
        used.append((stats["size"], stats["bytes"]))
    return {"entries": entries, "bytes": used}


def run(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Returns the curves of one figure; ``arguments``: its ``instance``, and the greatest number of ``sizes``."""
    curves = FIGURES[spec["mode"]](spec["arguments"].get("instance", ""), spec["arguments"].get("sizes", 99))
    progress(1, 1)
    return {"status": "ok", "check": {"status": "not asked for"}, "curves": curves}


def curve(points: Points) -> dict[str, Any]:
    """Returns the points with their fitted slope."""
    return {"points": points, "slope": round(slope(points), 3)}


def _by_strategy(instance: str, most: int) -> Curves:
    _, make, sizes = UPDATES[instance]
    curves: Curves = {}
    for label, options in STRATEGIES.items():
        points, stats = operations(make, sizes[:most], **options)
        curves[label] = curve(points) | {
            "majors": stats["major_rebalancings"],
            "moved_per_update": round(stats["tuples_moved"] / stats["updates"], 3),
        }
    return curves


def _by_epsilon(partition: str, most: int) -> Curves:
    return {
        str(epsilon): curve(
            operations(
                lambda n, e=epsilon: instances.wall(n, e),  # type: ignore[misc]
                WALL_SIZES[:most],
                epsilon=epsilon,
                strategy="eps",
                partition=partition,
            )[0]
        )
        for epsilon in EPSILONS
    }


def _by_outputs(instance: str, most: int) -> Curves:
    _, make, sizes = UPDATES[instance]
    return {
        outputs: curve(operations(make, sizes[:most], outputs=outputs, strategy="eps")[0])
        for outputs in ("a", "ab", "abc")
    }


def _delay(_: str, most: int) -> Curves:
    return {label: curve(delays(make, SQUARE_SIZES[:most], outputs)) for label, (make, outputs) in DELAYS.items()}


def _space(_: str, most: int) -> Curves:
    curves: Curves = {}
    for label, options in STRATEGIES.items():
        measured = space(instances.space_wall, SQUARE_SIZES[:most], **options)
        curves[label] = curve(measured["bytes"]) | {
            "entries": measured["entries"],
            "star_entries": space(instances.star, (4000,), **options)["entries"][0][1],
        }
    return curves


FIGURES: dict[str, Callable[[str, int], Curves]] = {
    "updates": _by_strategy,
    "epsilon": _by_epsilon,
    "outputs": _by_outputs,
    "delay": _delay,
    "space": _space,
}
