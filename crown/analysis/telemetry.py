"""Exports metrics as instruments of OpenTelemetry, which reads their values whenever it exports them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from crown.analysis.prometheus import Metric, Sample
from crown.errors import CrownError, needs

_LASTING = 1.0
"""Seconds for which read values are reused, so that all instruments of one export have values of the same moment."""
_TOTAL = "_total"


def instrumented(
    provider: Any, metrics: Iterable[Metric], read: Callable[[], Mapping[Metric, Iterable[Sample]]]
) -> None:
    """Adds an observable instrument for each metric to the meter ``crown`` of a provider; None: the global one.
    ``read`` returns the values. Raises CrownError for an object that is not a meter provider, and MissingPackageError.
    """
    with needs("metrics of OpenTelemetry"):
        from opentelemetry.metrics import MeterProvider, Observation, get_meter_provider
    given = get_meter_provider() if provider is None else provider
    if not isinstance(given, MeterProvider):
        raise CrownError(
            f"provider={provider!r:.100}: give a MeterProvider of OpenTelemetry, or None for the global one"
        )
    meter, latest = given.get_meter("crown"), _Latest(read)

    def observed(metric: Metric, _: Any) -> Iterator[Observation]:
        for labels, number in latest.numbers().get(metric, ()):
            yield Observation(number, labels)

    for metric in metrics:
        made = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
        made(metric.name.removesuffix(_TOTAL), [partial(observed, metric)], description=metric.meaning)


class _Latest:
    """The numbers that were read last."""

    def __init__(self, read: Callable[[], Mapping[Metric, Iterable[Sample]]]) -> None:
        self._read = read
        self._at = -_LASTING
        self._numbers: Mapping[Metric, Iterable[Sample]] = {}

    def numbers(self) -> Mapping[Metric, Iterable[Sample]]:
        if time.monotonic() - self._at >= _LASTING:
            self._numbers, self._at = self._read(), time.monotonic()
        return self._numbers
