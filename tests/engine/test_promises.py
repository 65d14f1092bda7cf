"""Every engine has all members of the protocols that it is said to keep, with the parameters that they name."""

from __future__ import annotations

import inspect

import pytest

from crown.engine.cells import Cells
from crown.engine.core import Core
from crown.engine.engine import Engine
from crown.maintained import Composable, Durable, Queryable
from crown.programs.program import ProgramEngine

KEPT = [
    (Queryable, Engine),
    (Durable, Engine),
    (Queryable, Cells),
    (Composable, Core),
    (Queryable, ProgramEngine),
    (Durable, ProgramEngine),
]


def members(protocol: type) -> dict[str, object]:
    found: dict[str, object] = {}
    for base in [base for base in protocol.__mro__ if base.__module__ == protocol.__module__]:
        found |= {name: member for name, member in vars(base).items() if not name.startswith("_")}
    return found


@pytest.mark.parametrize(("protocol", "engine"), KEPT)
def test_an_engine_keeps_what_its_protocol_promises(protocol: type, engine: type) -> None:
    ours = [base for base in engine.__mro__ if base.__module__.startswith(("crown", "spark_jobs"))]
    source = "".join(map(inspect.getsource, ours))
    checked = 0
    for name, promised in members(protocol).items():
        assert hasattr(engine, name) or f"self.{name} = " in source, f"{engine.__name__} lacks {name}"
        if inspect.isfunction(promised):
            wanted = inspect.signature(promised).parameters
            offered = inspect.signature(getattr(engine, name)).parameters
            assert set(wanted) <= set(offered), f"{engine.__name__}.{name} lacks {set(wanted) - set(offered)}"
            checked += 1
    assert checked > 4
