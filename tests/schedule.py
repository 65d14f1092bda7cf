"""The order in which parallel workers take files: what a worker has started for one file, it has for others, too.

A new JVM takes some 10 s of the processor until it has loaded and compiled what tests use, a server of S3 2 s.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

_ROOT = Path(__file__).parents[1]
_SESSION, _SERVERS, _PLAIN = range(3)
_ORDERS = ((_SESSION, _PLAIN, _SERVERS), (_SERVERS, _PLAIN, _SESSION), (_PLAIN, _SERVERS, _SESSION))
"""The kinds of files that the first worker, the second one and all others take one after the other."""


class ByKind(LoadFileScheduling):
    """A worker takes the first file of its kind, as long as there is one, and else one of the next kind.

    Every third worker ends where only files with a session are left: two JVMs keep its cores as busy as three.
    """

    def _reschedule(self, node: WorkerController) -> None:
        late = not node.shutting_down and self.nodes.index(node) >= max(2, len(self.nodes) * 2 // 3)
        if late and self.workqueue and all(_kind(file) == _SESSION for file in self.workqueue):
            node.shutdown()
        else:
            super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        order = _ORDERS[min(self.nodes.index(node), len(_ORDERS) - 1)]
        self.workqueue.move_to_end(min(self.workqueue, key=lambda file: order.index(_kind(file))), last=False)
        super()._assign_work_unit(node)


@cache
def _kind(file: str) -> int:
    if not file.startswith("tests/spark/"):
        return _PLAIN
    return _SESSION if re.search(r"\bspark\b[,):]", (_ROOT / file).read_text()) else _SERVERS
