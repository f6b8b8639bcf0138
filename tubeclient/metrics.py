"""The clients' counts as metrics of Prometheus. Needs the extra `metrics`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tubeclient.counts import CLIENT_METRICS, OPERATION_SECONDS, Metric
from tubeclient.extras import brought_by
from tubeclient.net.ledger import totals

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

__all__ = ["ClientMetrics", "families", "need_prometheus"]

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
