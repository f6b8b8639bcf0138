"""Changes of the dead-letter table beside other writers' changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from spark_source.session_confs import session_confs
from tubeclient_cli.ingest.dead_letters import DeadLetters, _until_alone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Change:
    """Another writer comes first `times` times."""

    def __init__(self, times: int, text: str = "[DELTA_CONCURRENT_APPEND] files were added") -> None:
        self.left = times
        self.text = text
        self.done = 0

    def __call__(self) -> None:
        if self.left:
            self.left -= 1
            raise RuntimeError(self.text)
        self.done += 1


def test_a_change_that_others_overtake_is_done_again() -> None:
    for times in (0, 1, 9):
        change = Change(times)
        _until_alone(change)
        assert change.done == 1


def test_it_is_given_up_in_the_end_and_other_errors_are_told_at_once() -> None:
    for change, left in ((Change(99), 89), (Change(99, "the lake is dry"), 98)):
        with pytest.raises(RuntimeError, match=change.text.strip("[").partition("]")[0]):
            _until_alone(change)
        assert (change.left, change.done) == (left, 0)


@pytest.mark.spark
def test_the_table_has_none_of_the_properties_that_the_session_gives_to_new_tables(
    delta_spark: SparkSession, tmp_path: Path
) -> None:
    defaults = {"appendOnly": "true", "setTransactionRetentionDuration": "interval 1 day"}
    confs = {f"spark.databricks.delta.properties.defaults.{name}": value for name, value in defaults.items()}
    with session_confs(delta_spark, confs):
        DeadLetters(delta_spark, str(tmp_path), "g").create()
        assert [delta_spark.conf.get(name) for name in confs] == list(confs.values())
    assert DeltaTable(str(tmp_path)).metadata().configuration == {}
