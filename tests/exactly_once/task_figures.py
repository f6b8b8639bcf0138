"""Counts tasks and executors in Spark's event logs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

__all__ = ["task_figures"]


def task_figures(folder: Path) -> Counter[str]:
    """Count the tasks of all runs whose logs are in `folder`, at the least: a driver that is killed takes the newest
    events along.
    """
    figures: Counter[str] = Counter()
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        for line in path.read_text(errors="replace").splitlines():
            # The last line of a driver that was killed need not be whole.
            if line.startswith('{"Event":"SparkListenerTaskEnd"') and line.endswith("}"):
                figures.update(_of_task(json.loads(line)))
            elif line.startswith('{"Event":"SparkListenerExecutorRemoved"'):
                figures["executors lost"] += 1
    return figures


def _of_task(event: dict[str, object]) -> list[str]:
    info = event["Task Info"]
    assert isinstance(info, dict)
    reason = event["Task End Reason"]
    assert isinstance(reason, dict)
    kinds = ["tasks"]
    if info["Attempt"]:
        kinds.append("further attempts")
    if info["Speculative"]:
        kinds.append("speculative attempts")
    if reason["Reason"] != "Success":
        kinds.append("killed as another attempt was first" if reason["Reason"] == "TaskKilled" else "failed")
    return kinds
