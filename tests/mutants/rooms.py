"""The three rooms in which faults are made, and the folders of tests that are asked about them.

Kernels with a fault run as plain Python: nothing is compiled for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NEVER = {"__init__.py", "jit.py", "warm.py", "lowered.py", "pointers.py", "prefetch.py"}


@dataclass(frozen=True)
class Room:
    """Folders of modules, without those below them.

    ``tests``: the folders of the tests that are asked about its faults. ``plain``: they run kernels as plain Python.
    """

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    plain: bool = False

    @property
    def files(self) -> list[str]:
        """All modules in which faults are made. Hints to the processor and what compiles have no behaviour."""
        found = [path for folder in self.modules for path in (ROOT / folder).glob("*.py")]
        return sorted(str(path.relative_to(ROOT)) for path in found if path.name not in _NEVER)


ROOMS = {
    room.name: room
    for room in (
        Room(
            "kernels",
            (
                "crown/kernels",
                "crown/kernels/memory",
                "crown/kernels/numbers",
                "crown/engine/kernels",
                "crown/engine/kernels/enumeration",
                "crown/engine/kernels/padding",
                "crown/engine/kernels/payloads",
                "crown/engine/load/kernels",
                "crown/stages/kernels",
                "crown/stages/kernels/groups",
                "crown/stages/kernels/over",
                "crown/stages/kernels/trees",
                "crown/bags/kernels",
                "crown/expressions/kernels",
                "crown/ingest/kernels",
                "crown/programs/kernels",
            ),
            ("engine", "programs", "stages", "kernels", "bags", "store", "triangle", "windows"),
            plain=True,
        ),
        Room(
            "stages",
            (
                "crown/stages",
                "crown/stages/groups",
                "crown/stages/joins",
                "crown/stages/over",
                "crown/stages/running",
                "crown/stages/tables",
                "crown/engine",
                "crown/programs",
                "crown/programs/pipelines",
                "crown/bags",
                "crown/store",
            ),
            ("engine", "programs", "stages", "bags", "store", "windows"),
        ),
        Room(
            "rules",
            (
                "plans",
                "plans/programs",
                "plans/time",
                "plans/lowering",
                "plans/lowering/comparisons",
                "plans/lowering/groups",
                "plans/lowering/joins",
                "plans/search",
                "plans/search/cells",
                "plans/search/counted",
                "plans/search/logs",
                "plans/payloads",
                "plans/queries",
            ),
            ("plans", "programs", "windows"),
        ),
    )
}
