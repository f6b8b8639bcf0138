"""The benchmark runs, and compares like with like. How fast anything was is no matter here."""

from __future__ import annotations

import re

import pytest

from bench import client, report
from bench.measured import Drained

pytestmark = pytest.mark.apache

MESSAGES = 5_000


def test_both_sides_read_the_same_messages_and_their_figures_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--messages", MESSAGES, "--rounds", 1, "--starts", 1, "--pull-starts", 1, "--balance-period-ms", 1_000]
    assert client.main([*map(str, arguments)]) == 0
    printed = capsys.readouterr().out
    assert re.search(rf"both sides read {MESSAGES:,} messages, ids sum [1-9]\d+, payloads' checksum [1-9]\d+", printed)
    [medians] = re.findall(r"^median +([\d,]+) +([\d,]+) +([\d,]+)$", printed, re.MULTILINE)
    assert all(int(rate.replace(",", "")) > 0 for rate in medians)
    assert re.search(r"ours / Java.*: \d+\.\d\d by the medians", printed)
    for side in (client.OUR_BALANCE, client.OUR_PULL, client.JAVA_BALANCE, client.JAVA_PULL):
        assert re.search(rf"^{side} +median +[\d,]+ ms", printed, re.MULTILINE), printed


SAME = Drained(messages=10, packs=2, ids=55, checksum=7, seconds=1.0, cpu_seconds=0.5)


@pytest.mark.parametrize("field", ["messages", "ids", "checksum"])
def test_a_side_that_read_something_else_is_named(field: str) -> None:
    """Packs and times may differ."""
    other = SAME._replace(**{field: 1})
    assert report.differing([{"ours": SAME, "Java": SAME._replace(packs=3, seconds=2.0)}]) is None
    found = report.differing([{"ours": SAME, "Java": SAME}, {"ours": SAME, "Java": other}])
    assert found is not None
    assert "Java in round 1" in found


def test_the_warm_up_does_not_count_and_each_java_is_compared_with() -> None:
    slow, fast = SAME._replace(seconds=10.0), SAME._replace(seconds=0.5)
    rounds = [
        {"ours": slow, "Java": fast, "Java, pullConfirmInLocal": fast},
        {"ours": fast, "Java": slow, "Java, pullConfirmInLocal": SAME},
    ]
    verdicts = [line for line in report.throughput_lines(rounds, 1) if line.startswith("ours / ")]
    assert [verdict.split(";")[0] for verdict in verdicts] == [
        "ours / Java: 20.00 by the medians, 20.00 by the best",
        "ours / Java, pullConfirmInLocal: 2.00 by the medians, 2.00 by the best",
    ]
    assert all(verdict.endswith("goal 1.5: reached") for verdict in verdicts)
    [missed] = [line for line in report.throughput_lines(rounds[:1], 0) if line.startswith("ours / Java:")]
    assert missed.endswith("goal 1.5: missed")
