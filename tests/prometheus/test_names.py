"""The page, the alerts and the dashboard name metrics and labels that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tubeclient.counts import CLIENT_METRICS
from tubeclient_cli.ingest.metrics import QUERY_METRICS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "monitor.md").read_text(encoding="utf-8")
ALERTS = (ROOT / "conf" / "prometheus-alerts.yml").read_text(encoding="utf-8")
DASHBOARD: dict[str, Any] = json.loads((ROOT / "conf" / "grafana-dashboard.json").read_text(encoding="utf-8"))
METRICS = {metric.name: metric for metric in (*CLIENT_METRICS, *QUERY_METRICS)}
SHOWN = {
    name + ending
    for name, metric in METRICS.items()
    for ending in (("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",))
}
LABELS = {label for metric in METRICS.values() for label in metric.labels}
LABELS |= {"messaging_system", "job", "instance", "le"}


def expressions(node: Any) -> Iterator[str]:
    """All queries in a dashboard's JSON, those of its variables included."""
    if isinstance(node, dict):
        yield from (node[name] for name in ("expr", "definition") if isinstance(node.get(name), str))
        for value in node.values():
            yield from expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from expressions(value)


def metrics_in(text: str) -> set[str]:
    return set(re.findall(r"\b(?:messaging_(?:client|process)|tubeclient)_\w+", text))


def labels_in(text: str) -> set[str]:
    matched = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", text)
    grouped = [one for group in re.findall(r"\b(?:by|on|ignoring)\s*\(([^)]*)\)", text) for one in group.split(",")]
    return {*matched, *(one.strip() for one in grouped)}


@pytest.mark.parametrize("name", METRICS)
def test_page_describes_each_metric(name: str) -> None:
    """The page describes each metric as the code does."""
    metric = METRICS[name]
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    assert f"\n| `{name}` | {metric.kind} | {labels} | {metric.help} |\n" in PAGE


def test_the_page_names_no_metric_that_is_not_there() -> None:
    assert metrics_in(PAGE) == set(METRICS)


def test_alerts_use_existing_metrics() -> None:
    """The alerts use only metrics and labels that exist."""
    told = ("#", "summary", "action")
    queries = "\n".join(line for line in ALERTS.splitlines() if not line.lstrip().startswith(told))
    assert len(metrics_in(queries)) >= 10
    assert metrics_in(queries) <= SHOWN
    assert labels_in(queries) <= LABELS
    assert metrics_in(ALERTS) <= SHOWN
    assert set(re.findall(r"\$labels\.(\w+)", ALERTS)) <= LABELS


def test_each_alert_is_on_the_page() -> None:
    alerts = re.findall(r"- alert: (\w+)", ALERTS)
    assert len(set(alerts)) == len(alerts) >= 5
    assert set(alerts) == set(re.findall(r"^\| `(Tubeclient\w+)` \|", PAGE, re.MULTILINE))


def test_dashboard_uses_existing_metrics() -> None:
    """The dashboard uses only metrics and labels that exist, and all that are not gauges."""
    queries = "\n".join(expressions(DASHBOARD))
    assert metrics_in(queries) <= SHOWN
    assert labels_in(queries) <= LABELS
    assert {name.removesuffix(end) for name in metrics_in(queries) for end in ("_bucket", "_sum", "_count")} >= {
        name for name, metric in METRICS.items() if metric.kind != "gauge"
    }
