"""Which tests `make test` leaves to `make test-all`: those that get the mark `nightly`.

Three tiers, each with all of the one before: `make test-fast` (no Spark, no servers of Apache's), `make
test` (each guarantee once, on embedded servers and one Spark session, and a short run on Apache's), `make test-all`. A
test that starts one of the three is nightly unless `MERGE` names it. So what is written anew cannot make the merge tier
long unless somebody wants it there.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

__all__ = ["HEAVY", "LONG", "MERGE", "NIGHTLY", "group_of", "is_nightly", "rank_of"]

ROOT: Final = Path(__file__).resolve().parent

HEAVY: Final = ("spark", "apache")
"""The marks of tests that start something large."""

ALL: Final = ("",)
INGEST: Final = "tubeclient_ingest"
COMMAND: Final = "tubeclient_cli/ingest"

MERGE: Final[Mapping[str, tuple[str, ...]]] = {
    "apache/test_producer_on_apache.py": ("test_restarts_of_broker_and_master_lose_no_message",),
    "apache/test_spark_on_apache.py": (
        "test_a_stream_into_delta_has_each_message_once_over_restarts",
        "test_apaches_master_refuses_a_second_query_of_the_group",
        "test_what_is_written_comes_back_with_all_that_belongs_to_it",
    ),
    "apache/test_times_on_apache.py": ALL,
    "conformance/test_codes.py": ALL,
    "conformance/test_java_alone.py": (
        "test_java_reads_back_what_java_wrote",
        "test_what_is_held_is_refused",
    ),
    "conformance/test_ranges.py": (
        "test_random_cuts_under_a_running_producer_give_each_message_once_and_in_order[apache-",
    ),
    "conformance/test_restarts.py": ("test_restarts_while_consuming_lose_nothing_and_repeat_nothing_confirmed[apache",),
    "conformance/test_three_nodes.py": ("test_each_message_comes_to_one_node_once",),
    "exactly_once/test_exactly_once.py": ("test_each_message_is_in_the_table_once_after_two_kills",),
    "jobs/test_consume_from_table.py": ("test_from_spark_to_two_consumers_and_back",),
    "spark_source/cluster/test_locked_cluster.py": ("test_batch_and_stream_read_what_the_locks_guard",),
    "spark_source/progress/test_broker_hand_over.py": ("test_the_group_follows_a_running_query_and_never_leads_it",),
    "spark_source/progress/test_table_order.py": ("test_available_now_ends_with_nothing_behind",),
    "spark_source/read/test_by_time.py": ALL,
    "spark_source/read/test_task_retry.py": ALL,
    "spark_source/test_bad_input.py": (
        "test_a_corrupted_frame_is_asked_for_again_and_in_the_end_named",
        "test_a_message_with_a_wrong_checksum",
        "test_a_second_query_of_a_group",
        "test_secrets_are_in_no_plan_and_no_progress",
    ),
    "spark_source/test_connect.py": (
        "test_batch_reads_views_and_writes",
        "test_streams_and_their_lag",
        "test_ingest_over_connect[True]",
    ),
    "spark_source/test_limits_on_spark.py": ("test_partitions_that_stand_apart_make_smaller_batches_until_they_meet",),
    "spark_source/test_named_sources.py": ("test_sources_come_and_go_and_come_back",),
    "spark_source/test_positions_on_spark.py": ALL,
    "spark_source/test_strategies_on_spark.py": (
        "test_a_backlog_moves_to_nodes_and_is_taken_over_and_the_table_tells",
    ),
    "spark_source/test_streaming.py": (
        "test_a_checkpoint_is_gone_on_from_and_a_stop_frees_the_group",
        "test_a_first_batch_that_crashed_loses_nothing",
        "test_a_replayed_batch_has_the_same_rows",
        "test_available_now_reads_everything_once_in_exact_batches",
        "test_filters_read_their_tags_only",
        "test_loss_ends_the_query_or_is_counted",
        "test_reading_a_batch_twice_gives_the_same_rows_and_moves_no_position",
        "test_restarts_of_master_and_broker_are_survived",
        "test_the_offsets_table_never_leads_and_ends_where_the_query_ended",
    ),
    "spark_source/typed/test_inlong_records.py": ("test_records_of_any_frame",),
    "spark_source/typed/test_changes.py": ALL,
    "spark_source/typed/test_avro.py": ALL,
    "spark_source/typed/test_record_format.py": ALL,
    "spark_source/typed/test_typed.py": ALL,
    "spark_source/write/test_write.py": ALL,
    "spark_source/write/test_write_stream.py": (
        "test_a_topic_is_copied_over_a_restart",
        "test_a_batch_that_failed_is_sent_again_and_loses_nothing",
    ),
    "tubeclient_cli/common/test_jvm_watch.py": ALL,
    f"{INGEST}/test_auditing.py": ("test_what_each_round_counts_is_reported_and_is_all_that_was_sent",),
    f"{INGEST}/test_both_writers.py": (
        "test_a_rule_that_comes_while_the_job_runs_is_kept",
        "test_rows_are_equal_whoever_wrote_them[partition_by1",
    ),
    f"{INGEST}/test_log_table.py": ALL,
    f"{INGEST}/test_many_tables.py": (
        "test_each_change_is_in_its_table_once_whatever_is_killed[tasks",
        "test_events_say_the_columns_and_tables_follow[tasks",
        "test_topics_tags_and_attributes[tasks",
        "test_tables_that_are_chosen_by_pattern",
    ),
    f"{INGEST}/test_bad_records.py": ("test_more_than_the_user_accepts_end_the_job_and_nothing_is_written",),
    f"{INGEST}/test_format_settings.py": ALL,
    f"{INGEST}/test_job.py": ("test_rows_and_their_end_offsets_are_in_one_commit",),
    f"{INGEST}/test_retry.py": ("test_a_retry_that_is_killed_moves_nothing_and_can_be_done_again[marks-job]",),
    f"{INGEST}/test_secrets.py": (
        "test_each_secret_option_has_a_canary",
        "test_spark_shows_no_secret_of_a_query",
    ),
    f"{INGEST}/test_sink.py": (
        "test_of_two_runs_that_looked_at_the_same_table_one_is_let_through",
        "test_rows_that_spark_or_delta_rs_take_out_are_told",
    ),
    f"{INGEST}/test_rescue.py": ("test_a_table_without_the_column_gets_it",),
    f"{INGEST}/test_rest.py": ("test_a_run_that_stood_still_and_does_not_know_that_a_stream_is_defined_by_now[True]",),
    f"{INGEST}/test_only_truth.py": (
        "test_a_target_that_is_made_anew",
        "test_rows_that_restore_took_out",
    ),
    f"{INGEST}/test_sessions.py": ("test_a_transaction_of_the_session_is_none_of_the_jobs",),
    f"{INGEST}/test_streams.py": (
        "test_a_round_that_died_between_two_tables_is_written_for_the_others[3-False]",
        "test_a_stream_that_is_refused_stays_behind_and_the_others_go_on",
    ),
    f"{INGEST}/test_upserts.py": ("test_the_newest_row_of_a_partition",),
    f"{INGEST}/test_target_rules.py": ("test_what_delta_refuses_has_a_reason_and_nothing_else_has",),
}
"""Of the files with heavy tests, those of the merge tier: how a test's name begins, without its module."""

NIGHTLY: Final = (
    "prometheus/test_prometheus.py",
    "test_image.py",
    "test_install.py",
    "test_site.py",
    "tubeclient/test_web_answers.py",
)
"""Files and folders that need none of the three, and take long or want something installed."""

LONG: Final = (
    "exactly_once/test_exactly_once.py",
    "spark_source/test_connect.py",
    f"{INGEST}/test_whole_group.py",
    f"{COMMAND}/test_command.py",
    f"{INGEST}/test_job.py",
    f"{INGEST}/test_bad_records.py",
    "simulation/test_simulation.py",
    f"{INGEST}/test_retry.py",
    "spark_source/progress/test_table_order.py",
    f"{INGEST}/test_job_targets.py",
    "exactly_once/test_lost_tail.py",
)
"""Each takes minutes in `make test-all`; the longest is first."""


def _place(item: pytest.Item) -> str:
    return item.path.relative_to(ROOT).as_posix()


def is_nightly(item: pytest.Item) -> bool:
    """Whether `make test` leaves this test out."""
    place = _place(item)
    if place.startswith(NIGHTLY):
        return True
    if not any(item.get_closest_marker(mark) for mark in HEAVY):
        return False
    return not item.name.startswith(MERGE.get(place, ()))


@functools.cache
def group_of(place: str) -> str:
    """Files of one group run in one process, one after the other: one Spark session, and one start of Apache's servers,
    serve all that use them. `place` is the file's, below this folder.
    """
    text = (ROOT / place).read_text(encoding="utf-8")
    if "delta_spark" in text or "ingest.bench import" in text:
        return "spark"
    return "apache" if place.startswith(("apache/", "conformance/")) else place


def rank_of(item: pytest.Item) -> tuple[bool, int]:
    """Where it comes in the run: what takes long first, or it would be the last, while the other processes idle."""
    place = _place(item)
    return group_of(place) != "spark", LONG.index(place) if place in LONG else len(LONG)
