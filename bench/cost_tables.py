"""What a row costs, and what the broker does for it, as markdown tables. Pure text."""

from __future__ import annotations

from typing import Final

from bench.executor_cpu import ALL_COLUMNS, DRAIN, GROUP, KAFKA, VALUE_ALONE, WORKLOADS_MEASURED
from bench.parties import BROKER, DRAINERS, JVM, PYTHON
from bench.results import Results
from bench.workloads import LAYOUTS

__all__ = ["WHO", "broker_table", "cost_table"]

WHO: Final = {ALL_COLUMNS: "all nine columns", VALUE_ALONE: "`columns=value`"}
_NOTHING: Final = "-"


def cost_table(results: Results) -> str:
    """CPU seconds of executors for a million rows, and the ratio to Spark's Kafka source."""
    medians = results.medians()
    headings = [f"{layout.title} | of Kafka's" for layout in LAYOUTS]
    lines = [
        f"| CPU s for a million rows: Python + JVM | {' | '.join(headings)} | Spark's Kafka source |",
        "|---" * (2 + 2 * len(LAYOUTS)) + "|",
    ]
    for work in WORKLOADS_MEASURED:
        kafkas = medians.get(f"{GROUP}/{work.key}/{KAFKA}/executors")
        for who, columns in WHO.items():
            cells = []
            for layout in LAYOUTS:
                side = f"{GROUP}/{work.key}/{layout.key}/{who}"
                python, jvm, both = (medians.get(f"{side}/{part}") for part in (PYTHON, JVM, "executors"))
                cells.append(_NOTHING if python is None or jvm is None else f"{_short(python)} + {_short(jvm)}")
                cells.append(_NOTHING if both is None or not kafkas else f"{both / kafkas:.2f}")
            title = f"{work.title}, {columns}"
            lines.append(f"| {title} | {' | '.join(cells)} | {_NOTHING if kafkas is None else _short(kafkas)} |")
    return "\n".join(lines) + "\n"


def broker_table(results: Results) -> str:
    """CPU seconds of everything that shared the machine in a read, for a million rows."""
    medians = results.medians()
    places = [(work, layout) for work in WORKLOADS_MEASURED for layout in LAYOUTS]
    lines = [
        f"| | {' | '.join(f'{work.title}, {layout.title}' for work, layout in places)} |",
        "|---" * (1 + len(places)) + "|",
    ]
    for title, who, part in (
        ("broker", ALL_COLUMNS, BROKER),
        ("Python workers", ALL_COLUMNS, PYTHON),
        ("Spark's JVM", ALL_COLUMNS, JVM),
        ("of these two, the kernel's", ALL_COLUMNS, "kernel"),
        ("thrown away: broker", DRAIN, BROKER),
        ("thrown away: drainers", DRAIN, DRAINERS),
    ):
        found = (medians.get(f"{GROUP}/{work.key}/{layout.key}/{who}/{part}") for work, layout in places)
        lines.append(f"| {title} | {' | '.join(_NOTHING if one is None else _short(one) for one in found)} |")
    return "\n".join(lines) + "\n"


def _short(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds < 10 else f"{seconds:.0f}"
