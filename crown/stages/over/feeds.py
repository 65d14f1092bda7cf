"""Creates the stage of each planned stage that reads feeds; joins read relations, linear stages keep no state."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from crown.stages.groups.group import Groups
from crown.stages.joins.bands import Bands
from crown.stages.joins.core import Join
from crown.stages.joins.single import Single
from crown.stages.over.stage import Over
from crown.stages.pointwise import Pointwise
from crown.stages.protocol import Part, Stage
from crown.stages.running.slices import Slices
from crown.stages.tables.timed import Timed
from crown.stages.top import Top
from plans.programs.stages import (
    BandStage,
    GroupStage,
    OverStage,
    PointwiseStage,
    SingleStage,
    SliceStage,
    TimedStage,
    TopStage,
)
from plans.programs.stages import Stage as Planned
from plans.schema import Column

_BY_FEED: dict[type, Callable[..., Stage]] = {
    TopStage: Top, OverStage: Over, SliceStage: Slices, SingleStage: Single, TimedStage: Timed, BandStage: Bands
}  # fmt: skip


def over_feeds(stage: Planned, sources: Sequence[tuple[Column, ...]], part: Part, below: Stage | None) -> Stage:
    """Creates the stage that runs a planned stage in a part. ``sources``: the columns of the source of each feed.
    ``below``: the stage that the first feed reads, or None if it reads a relation."""
    if isinstance(stage, GroupStage):
        carried = below.carried if isinstance(below, (Join, Bands)) else []
        return Groups(stage, sources[0], part, carried, sources[1:])
    if isinstance(stage, PointwiseStage):
        return Pointwise(stage, sources, part)
    return _BY_FEED[type(stage)](stage, *sources, part)
