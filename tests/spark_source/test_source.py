"""The data source itself, without a SparkSession: importing, pickling, secrets, the end of the planner's process."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_tubeclient import DefaultSource
from spark_source.plan.read_task import OffsetRule, ReadTask
from spark_source.stream.batch_reader import TubeBatchReader
from spark_source.stream.planner_process import PLANNER_MODULE
from spark_source.stream.stream_reader import TubeStreamReader
from spark_source.write.sink import TubeBatchWriter, TubeStreamWriter
from tubeclient.errors import ConfigurationError
from tubeclient.keys import BrokerInfo, OffsetRange, PartitionKey, StoreKey

SECRET = "hunter2-hunter2"

OPTIONS = {
    "masterservers": "127.0.0.1:1",
    "consumergroup": "g",
    "subscribe": "t",
    "offsetstable": "/nowhere",
    "storageoption.aws_secret_access_key": SECRET,
}


def source(**more: str) -> DefaultSource:
    return DefaultSource({**OPTIONS, **more})


def stream_reader(**more: str) -> TubeStreamReader:
    one = source(**more)
    reader = one.streamReader(one.schema())
    assert isinstance(reader, TubeStreamReader)
    return reader


def pickled(what: object) -> bytes:
    """As Spark pickles it."""
    dumped: bytes = cloudpickle.dumps(what)  # type: ignore[no-untyped-call]
    return dumped


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_without_optional_packages() -> None:
    """An import that fails here would take every other data source of the session with it."""
    modules = "('pyarrow', 'pandas', 'numpy', 'deltalake', 'google', 'tubeclient', 'offsets_store')"
    code = f"""
import sys
for name in {modules}:
    sys.modules[name] = None
import pyspark_tubeclient
print(pyspark_tubeclient.DefaultSource.name())
"""
    assert run_python(code).strip() == "tubeclient"


def test_planning_does_not_load_arrow() -> None:
    code = """
import sys
import spark_source.stream.stream_reader, spark_source.stream.planner
import spark_source.progress.progress_table, spark_source.write.sink
print(sorted({"pyarrow", "deltalake", "pandas"} & set(sys.modules)))
"""
    assert run_python(code).strip() == "[]"


@pytest.mark.parametrize("kind", ["stream", "batch"])
def test_tasks_are_sent_little_and_no_secret(kind: str) -> None:
    """Spark sends the reader and the source itself with every task."""
    one = source()
    assert SECRET.encode() in pickled(one)  # the planner's process needs it
    reader: Any = one.streamReader(one.schema()) if kind == "stream" else one.reader(one.schema())
    for sent in (reader, one):
        assert SECRET.encode() not in pickled(sent)
        assert len(pickled(sent)) < 4096
        assert SECRET not in repr(sent) + repr(vars(sent))
    copy = pickle.loads(pickled(reader))
    assert isinstance(copy, TubeStreamReader | TubeBatchReader)
    assert copy._options.consumer_group == "g"
    assert copy._options.storage_options == {}


@pytest.mark.parametrize("ranges", [0, 1, 3])
def test_a_task_arrives_as_it_was_sent(ranges: int) -> None:
    some = [OffsetRange(PartitionKey(1, "t", 10_000 * n), 28 * n, 280) for n in range(ranges)]
    rules = {StoreKey(1, "t", n): OffsetRule.ALWAYS for n in range(1, ranges)}
    task = ReadTask(3, some, rules, (BrokerInfo(1, "127.0.0.1", 8123),), visit_token=7)
    copy = pickle.loads(pickled(task))
    assert copy == task
    assert copy.visit_token == 7
    assert all((type(one), type(one.partition)) == (OffsetRange, PartitionKey) for one in copy.ranges)
    assert [copy.offset_rule_of(one.partition) for one in copy.ranges[:2]] == [
        OffsetRule.UNKNOWN,
        OffsetRule.ALWAYS,
    ][:ranges]


@pytest.mark.parametrize("streaming", [False, True])
def test_a_writer_is_small_and_checked_when_it_is_made(streaming: bool) -> None:
    one = DefaultSource({"masterservers": "127.0.0.1:1", "topic": "t"})
    make: Any = one.streamWriter if streaming else one.writer
    rows = StructType([StructField("value", StringType())])
    writer = make(rows, False)
    assert len(pickled(writer)) < 2048
    assert isinstance(pickle.loads(pickled(writer)), TubeStreamWriter if streaming else TubeBatchWriter)
    with pytest.raises(ConfigurationError, match=r'use (outputMode|mode)\("append"\)'):
        make(rows, True)
    with pytest.raises(ConfigurationError, match="column value has the type bigint"):
        make(StructType([StructField("value", LongType())]), False)
    for read in (one.schema, lambda: one.reader(rows), lambda: one.streamReader(rows).initialOffset()):
        with pytest.raises(ConfigurationError, match="option topic applies to writes only"):
            read()
    with pytest.raises(ConfigurationError, match="option consumerGroup applies to reads only"):
        getattr(source(), "streamWriter" if streaming else "writer")(rows, False)


def test_sigterm_ends_the_planner() -> None:
    """SIGTERM ends the planner's process in the ordinary way, even if it comes twice."""
    code = f"""
import gc, os, signal, sys, types
from spark_source.stream.planner_process import set_up_planner_process
sys.modules["__main__"].__spec__ = types.SimpleNamespace(name={PLANNER_MODULE!r})
assert set_up_planner_process()
assert gc.get_threshold()[0] >= 100_000  # many partitions make many objects
try:
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()
finally:
    os.kill(os.getpid(), signal.SIGTERM)  # a second one while the end is being made
    print("stopped")
"""
    assert run_python(code) == "stopped\n"
