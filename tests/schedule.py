"""The order in which parallel workers take files: one worker has most of those with a Spark session.

A JVM that is new takes some 15 s of the processor until it has loaded and compiled what tests use.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

_ROOT = Path(__file__).parents[1]


class FewSessions(LoadFileScheduling):
    """The first worker takes files with a session as long as there are some, the others take the rest first."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        wanted = node is self.nodes[0]
        for file in self.workqueue:
            if _has_session(file) == wanted:
                self.workqueue.move_to_end(file, last=False)
                break
        super()._assign_work_unit(node)


@cache
def _has_session(file: str) -> bool:
    """Returns True if a test of the file asks for the session."""
    return file.startswith("tests/spark/") and re.search(r"\bspark\b[,):]", (_ROOT / file).read_text()) is not None
