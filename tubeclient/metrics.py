"""The clients' counts as metrics of Prometheus. Needs the extra `metrics`."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tubeclient.counts import CLIENT_METRICS, OPERATION_SECONDS, Key, Sample, counted
from tubeclient.extras import brought_by

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

_present: weakref.WeakKeyDictionary[Any, Callable[[Any], Iterable[Sample]]] = weakref.WeakKeyDictionary()
os.register_at_fork(after_in_child=_present.clear)

_SYSTEM: Final = ("messaging_system", "tubemq")


def show(owner: object, now: Callable[[Any], Iterable[Sample]]) -> None:
    """Show what `now(owner)` gives as long as the owner lives. No reference to it is held."""
    _present[owner] = now


def totals() -> dict[Key, tuple[float, ...]]:
    """The sums over all clients of this process; a forked child begins with none."""
    sums = counted()
    for owner in filter(None, [known() for known in _present.keyrefs()]):
        for key, values in _present[owner](owner):
            sums[key] = tuple(map(sum, zip(sums[key], values, strict=True))) if key in sums else values
    return sums


class ClientMetrics:
    """A collector for a registry of the package prometheus-client: what all clients of this process have sent and read.

    It reads the clients' own counts when it is scraped. Clients that were made before it count too. Those of other
    processes, such as Spark's tasks, do not. Needs the extra `metrics`.

        >>> from prometheus_client import REGISTRY, start_http_server  # doctest: +SKIP
        >>> REGISTRY.register(ClientMetrics())  # doctest: +SKIP
        >>> start_http_server(9464, addr="127.0.0.1")  # doctest: +SKIP

    Raises:
        MissingPackage: The package prometheus-client is missing.
    """

    def __init__(self) -> None:
        with brought_by("metrics"):
            import prometheus_client  # noqa: F401

    def describe(self) -> Iterable[Family]:
        """Return the metrics without values. A registry uses them to notice two collectors of the same names."""
        return _families({})

    def collect(self) -> Iterable[Family]:
        """Return the metrics with their present values."""
        return _families(totals())


def _families(values: Mapping[Key, Sequence[float]]) -> Iterator[Family]:
    """All metrics in the form of prometheus_client, with `values` as in Samples."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    limits = [*map(str, map(float, OPERATION_SECONDS)), "+Inf"]
    for metric in CLIENT_METRICS:
        more = (_SYSTEM,) if metric.name.startswith("messaging_") else ()
        names = [*metric.labels, *(name for name, _ in more)]
        of_metric = [(labels, found) for (other, labels), found in values.items() if other is metric]
        family: Family
        if metric.kind == "histogram":
            family = histogram = HistogramMetricFamily(metric.name, metric.help, labels=names)
            for labels, found in of_metric:
                *counts, total = found
                sums = [sum(counts[: place + 1]) for place in range(len(counts))]
                buckets = list(zip(limits, sums, strict=True))
                histogram.add_metric([*labels, *(value for _, value in more)], buckets, total)
        else:
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = plain = kind(metric.name, metric.help, labels=names)
            for labels, found in of_metric:
                plain.add_metric([*labels, *(value for _, value in more)], found[0])
        yield family
