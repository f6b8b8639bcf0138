"""The clients' counts as metrics of Prometheus. Needs the extra `metrics`."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tubeclient.counts import CLIENT_METRICS, OPERATION_SECONDS, Counts, Metric, Sample
from tubeclient.extras import brought_by

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family


Key = tuple[Metric, tuple[str, ...]]


class _Ledger:
    """Counts outlive their clients, so that the sums never fall. Those of forgotten clients are kept as one sum."""

    def __init__(self) -> None:
        # Re-entrant: a signal handler may make a client while another one is entered.
        self._lock = threading.RLock()
        self._entries: list[tuple[weakref.ref[Any], Counts, Callable[[Any], Iterable[Sample]]]] = []
        self._past: dict[Key, tuple[float, ...]] = {}

    def enter(self, owner: object, counts: Counts, now: Callable[[Any], Iterable[Sample]]) -> None:
        with self._lock:
            self._put_away()
            self._entries.append((weakref.ref(owner), counts, now))

    def totals(self) -> dict[Key, tuple[float, ...]]:
        with self._lock:
            self._put_away()
            found, entries = dict(self._past), list(self._entries)
        for known, counts, now in entries:
            _add(found, counts.samples())
            owner = known()
            if owner is not None:
                _add(found, now(owner))
        return found

    def _put_away(self) -> None:
        """Nobody adds any more to the counts of a client that is gone."""
        kept = []
        for entry in self._entries:
            if entry[0]() is None:
                _add(self._past, entry[1].samples())
            else:
                kept.append(entry)
        self._entries = kept


def _add(sums: dict[Key, tuple[float, ...]], samples: Iterable[Sample]) -> None:
    for metric, labels, values in samples:
        before = sums.get((metric, labels))
        sums[metric, labels] = values if before is None else tuple(map(sum, zip(before, values, strict=True)))


_ledger = _Ledger()


def enter(owner: object, counts: Counts, now: Callable[[Any], Iterable[Sample]] = lambda _: ()) -> None:
    """Show these counts for ever, and while `owner` lives, also what `now(owner)` gives. No reference to the owner is
    held."""
    _ledger.enter(owner, counts, now)


def totals() -> dict[Key, tuple[float, ...]]:
    """The sums over all clients of this process; a forked child begins with none."""
    return _ledger.totals()


def _begin_anew() -> None:
    global _ledger
    _ledger = _Ledger()


os.register_at_fork(after_in_child=_begin_anew)


_SYSTEM: Final = ("messaging_system", "tubemq")


def need_prometheus() -> None:
    """Raise a ModuleNotFoundError that names the extra if prometheus_client is missing."""
    with brought_by("metrics"):
        import prometheus_client  # noqa: F401


class ClientMetrics:
    """A collector for a registry of the package prometheus-client: what all clients of this process have sent and read.

    It reads the clients' own counts when it is scraped, so clients that were made before it count too. Those of other
    processes, such as Spark's tasks, are not in it. Needs the extra `metrics`.

    >>> from prometheus_client import REGISTRY, start_http_server  # doctest: +SKIP
    >>> REGISTRY.register(ClientMetrics())  # doctest: +SKIP
    >>> start_http_server(9464, addr="127.0.0.1")  # doctest: +SKIP
    """

    def __init__(self) -> None:
        need_prometheus()

    def describe(self) -> Iterable[Family]:
        """The metrics without values, so that a registry sees two collectors of the same names."""
        return families(CLIENT_METRICS, {})

    def collect(self) -> Iterable[Family]:
        """The metrics with their present values."""
        return families(CLIENT_METRICS, totals())


def families(
    metrics: Iterable[Metric],
    values: Mapping[tuple[Metric, tuple[str, ...]], Sequence[float]],
    bounds: Sequence[float] = OPERATION_SECONDS,
) -> Iterator[Family]:
    """`metrics` in the form of prometheus_client, with `values` as in Samples; `bounds` are those of histograms.

    OpenTelemetry's metrics have its label messaging_system.
    """
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    limits = [*map(str, map(float, bounds)), "+Inf"]
    for metric in metrics:
        more = (_SYSTEM,) if metric.name.startswith("messaging_") else ()
        names = [*metric.labels, *(name for name, _ in more)]
        of_metric = [(labels, found) for (other, labels), found in values.items() if other is metric]
        family: Family
        if metric.kind == "histogram":
            family = histogram = HistogramMetricFamily(metric.name, metric.help, labels=names)
            for labels, found in of_metric:
                *counts, total = found
                sums = [sum(counts[: place + 1]) for place in range(len(counts))]
                histogram.add_metric(
                    [*labels, *(value for _, value in more)], list(zip(limits, sums, strict=True)), total
                )
        else:
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = plain = kind(metric.name, metric.help, labels=names)
            for labels, found in of_metric:
                plain.add_metric([*labels, *(value for _, value in more)], found[0])
        yield family
