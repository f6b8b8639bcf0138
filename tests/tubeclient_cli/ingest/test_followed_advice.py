"""What an error of the ingest job says to do about rows is done to the letter; then each message is there once."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable

from embedded_tubemq import TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient_cli.ingest.bench import Bench
from tubeclient.conditions import said
from tubeclient.errors import ConfigurationError
from tubeclient_cli.ingest.advice import short_cause, with_advice

pytestmark = pytest.mark.spark


def refused(bench: Bench, checkpoint: str, condition: str, **changes: Any) -> str:
    """The text of the error with which a run is refused."""
    from pyspark.errors import StreamingQueryException

    with pytest.raises((StreamingQueryException, ConfigurationError)) as caught:
        bench.run(checkpoint, **changes)
    text = said(caught.value)
    assert f"[{condition}] " in text
    return text


def follow(bench: Bench, text: str, **changes: Any) -> int:
    """Do all that an advice says, and start with a new checkpoint, as each of them wants; returns the rows written."""
    assert "new checkpoint" in text
    for sql in re.findall(r"RESTORE TABLE \S+ TO VERSION AS OF \d+", text):
        bench.spark.sql(sql).collect()
    if "remove the table" in text:
        shutil.rmtree(bench.settings.target)
    chosen = re.search(r"--starting-offsets (\w+)", text)
    name = f"new{len(bench.said)}"
    return sum(event.rows for event in bench.run(name, starting_offsets=chosen and chosen[1], **changes))


def test_a_table_without_the_groups_rows_gets_all_of_them(bench: Bench) -> None:
    bench.send(20)
    bench.run("one")
    shutil.rmtree(bench.settings.target)
    bench.send(20)
    text = refused(bench, "one", "ROWS_WOULD_BE_MISSING")
    # The offsets table has the group where the lost table ended.
    assert follow(bench, text) == 40
    assert bench.repeated_or_missing() == {}
    bench.send(20)
    assert sum(event.rows for event in bench.run(f"new{len(bench.said) - 1}")) == 20
    assert bench.repeated_or_missing() == {}


def test_a_table_without_one_of_the_topics_gets_all_of_it(bench: Bench) -> None:
    bench.tube.create_topic(TopicConfig("views", 1, 1))
    both, other = ("clicks", "views"), str(bench.folder / "other")
    bench.send(20)
    bench.tube.load("views", [NewMessage(0, b"view")] * 10)
    bench.run("one", topics=both)
    bench.run("two", target=other, offsets_table=str(bench.folder / "offsets2"))
    bench.send(20)
    text = refused(bench, "one", "ROWS_WOULD_BE_MISSING", topics=both, target=other)
    assert "nor in 0 other partitions" in text
    assert follow(bench, text, topics=both, target=other) == 30
    assert DeltaTable(other).count() == 50


def test_a_table_that_was_put_back_gets_what_it_lost(bench: Bench) -> None:
    for _ in range(2):
        bench.send(20)
        bench.run("one")
    bench.spark.sql(f"RESTORE TABLE delta.`{bench.settings.target}` TO VERSION AS OF 0").collect()
    bench.send(20)
    assert follow(bench, refused(bench, "one", "ROWS_WOULD_BE_MISSING")) == 40
    assert bench.repeated_or_missing() == {}


def test_a_checkpoint_that_was_put_back_is_left_for_a_new_one(bench: Bench) -> None:
    bench.send(20)
    bench.run("one")
    shutil.copytree(bench.folder / "one", bench.folder / "backup")
    bench.send(20)
    bench.run("one")
    bench.send(20)
    assert follow(bench, refused(bench, "backup", "ROWS_WOULD_REPEAT")) == 20
    assert bench.repeated_or_missing() == {}


def test_after_a_lost_tail_what_comes_is_read_once(bench: Bench) -> None:
    bench.send(60)
    bench.run("one")
    bench.tube.delete_topic("clicks")
    bench.tube.create_topic(TopicConfig("clicks", 2, 1))
    bench.sent = 0
    bench.send(40)  # the brokers have the first 40 only
    text = with_advice(short_cause(refused(bench, "one", "DATA_LOSS")))
    option = re.search(
        r"lost their newest messages, go on with the group's last checkpoint and --option (\w+)=(\w+)", text
    )
    assert option is not None
    lax = {**bench.settings.source_options, option[1]: option[2]}
    assert sum(event.rows for event in bench.run("one", source_options=lax)) == 0
    bench.sent = 60
    bench.send(20)
    assert sum(event.rows for event in bench.run("one")) == 20
    assert bench.repeated_or_missing() == {}


def delete(bench: Bench) -> None:
    bench.spark.sql(f"DELETE FROM delta.`{bench.settings.target}` WHERE partitionKey = '1:clicks:0'").collect()


def overwrite(bench: Bench) -> None:
    rows = bench.spark.read.format("delta").load(bench.settings.target).limit(3)
    rows.write.format("delta").mode("overwrite").save(bench.settings.target)


@pytest.mark.parametrize(("act", "left"), [(delete, 10), (overwrite, 3)])
def test_rows_that_others_removed_come_back_or_stay_out(bench: Bench, act: Callable[[Bench], None], left: int) -> None:
    bench.send(20)
    bench.run("one")
    act(bench)
    assert DeltaTable(bench.settings.target).count() == left
    bench.send(20)
    text = refused(bench, "two", "TARGET_ROWS_UNKNOWN")
    assert "version 1 of" in text
    undo, keep = text.split(" Or ", 1)
    assert follow(bench, keep) == 20
    assert DeltaTable(bench.settings.target).count() == left + 20
    bench.spark.sql(f"RESTORE TABLE delta.`{bench.settings.target}` TO VERSION AS OF 1").collect()
    assert follow(bench, f"{undo}, with a new checkpoint") == 20
    assert bench.repeated_or_missing() == {}
