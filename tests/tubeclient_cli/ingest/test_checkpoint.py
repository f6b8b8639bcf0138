"""Spark's offset log, as the job reads it."""

from __future__ import annotations

import pytest

from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient_cli.ingest.checkpoint import parse_offset_log


@pytest.mark.parametrize(
    "text",
    [
        'v1\n{"batchWatermarkMs":0}\n{"1:clicks:0": {"0": 280}, "version": 1}',
        'v2\n{"batchWatermarkMs":0}\n0:{"1:clicks:0": {"0": 280}, "version": 1}',
    ],
)
def test_the_offset_log_is_read_as_spark_writes_it(text: str) -> None:
    assert parse_offset_log(text) == {PartitionKey(1, "clicks", 0): 280}


@pytest.mark.parametrize("text", ["v3\n{}\n{}", "v2\n{}\n0:{}\n1:{}", "v1\n{}", "v1\n{}\n{}\n{}", ""])
def test_the_offset_log_of_another_job_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="checkpoint of its own"):
        parse_offset_log(text)
