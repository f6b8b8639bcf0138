"""The benchmark runs to its end, and prints all its figures. How fast anything was is no matter here."""

from __future__ import annotations

import re

import pytest

from bench import rebalance

TIMES = r" +\d+\.\d\d +\d+\.\d\d +\d+\.\d\d +CPU \d+\.\d\d$"


def test_a_member_ends_and_another_joins(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--ends", "closed", "--rounds", "1", "--refresh-ms", "300", "--refreshes", "0"]
    assert rebalance.main(arguments) == 0
    told = capsys.readouterr()
    for name in ("closed, until others read its partitions", "another joins, until it reads its share"):
        assert re.search(rf"^{name} +\d+\.\d +\d+\.\d +\d+\.\d +bound ", told.out, re.MULTILINE), told.out
    assert "its 4 partitions were without a reader" in told.err


def test_a_refresh_is_measured_in_all_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert rebalance.main(["--rounds", "0", "--refreshes", "2", "--partitions", "200", "--nodes", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("200 partitions of ") == 2
    for name in ("refresh, nothing changed", "refresh, the whole list comes anew", "  assign them to 2 nodes, modulo"):
        assert len(re.findall(rf"^{name}{TIMES}", printed, re.MULTILINE)) == 2, printed
