"""The three rooms in which faults are made: their modules, the tests that are asked, and how kernels run for them.

Kernels run as plain Python: nothing is compiled for a fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NEVER = {"__init__.py", "jit.py", "warm.py", "lowered.py", "pointers.py", "prefetch.py"}


@dataclass(frozen=True)
class Room:
    """Folders of modules, without those below them, and folders or files of tests."""

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    plain: bool

    @property
    def files(self) -> list[str]:
        """All modules in which faults are made. Hints to the processor and what compiles have no behaviour."""
        found = [path for folder in self.modules for path in (ROOT / folder).glob("*.py")]
        return sorted(str(path.relative_to(ROOT)) for path in found if path.name not in _NEVER)


_ENGINE = ("tests/engine", "tests/programs", "tests/stages", "tests/bags", "tests/store", "tests/triangle")

ROOMS = {
    room.name: room
    for room in (
        Room(
            "kernels",
            (
                "crown/kernels",
                "crown/engine/kernels",
                "crown/engine/load/kernels",
                "crown/stages/kernels",
                "crown/bags/kernels",
            ),
            ("tests/kernels", *_ENGINE),
            True,
        ),
        Room(
            "stages",
            ("crown/stages", "crown/stages/groups", "crown/engine", "crown/programs", "crown/bags", "crown/store"),
            (*_ENGINE, "tests/windows"),
            False,
        ),
        Room(
            "rules",
            (
                "plans",
                "plans/lowering",
                "plans/search",
                "plans/search/counted",
                "plans/search/logs",
                "plans/payloads",
                "plans/queries",
            ),
            ("tests/plans", *_ENGINE),
            False,
        ),
    )
}
