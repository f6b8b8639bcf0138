"""From the user's options to one frozen value, checked as a whole before anything is contacted."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from spark_source.offsets.offset_spec import GroupFallback, OffsetSpec
from spark_source.offsets.timestamps import Unmatched, check_order
from spark_source.options import parsers as to
from spark_source.options.access import AccessOptions, asks_for_tls, check_access
from spark_source.options.row import REQUIRED, OptionRow
from spark_source.options.table import OPTIONS, SPARKS_OWN, find_row
from tubeclient.assignment import NO_HINTS, Hints, check_strategy
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient.names import reader_groups_of

__all__ = ["GivenOptions", "Masked", "SourceOptions", "parse_given", "parse_options", "read_options"]

_log = logging.getLogger(__name__)


class Masked(Mapping[str, str]):
    """A mapping whose values show up nowhere by accident: not in its text, not in that of whatever holds it."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key}: ***" for key in sorted(self._values)) + "}"


@dataclass(frozen=True, slots=True)
class GivenOptions:
    """What the user gave, value by value. Whether a read or a write is to come of it, Spark says only later."""

    names: frozenset[str] = frozenset()
    """Names of the options given, as they are documented."""
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Fields to values, of the options given."""

    def of(self, use: Literal["read", "write"]) -> dict[str, Any]:
        """Return fields to values for all options of a read or of a write, with the defaults of those not given.

        Raises ConfigurationError that names one option that is of no use there, or that is missing.
        """
        for name in sorted(self.names):
            row = find_row(name)
            if (row is None and use == "read") or (row is not None and not row.applies_to(use)):
                raise ConfigurationError(_misplaced(name, use))
        rows = [row for row in OPTIONS if row.applies_to(use)]
        values = {row.field: self.values.get(row.field, row.default) for row in rows}
        missing = [row.name for row in rows if values[row.field] is REQUIRED]
        if missing:
            raise ConfigurationError(f'option {missing[0]} is required; add .option("{missing[0]}", ...)')
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(AccessOptions):
    """What a read is asked for. One field for each row of `option_table.OPTIONS` that reads have; it documents it."""

    consumer_group: str
    subscribe: tuple[str, ...]
    subscribe_pattern: re.Pattern[str] | None
    assigned: tuple[str, ...]
    filters: Mapping[str, frozenset[str]]
    source_count: int | None
    assignment_strategy: str
    assignment_hints: Hints
    starting: OffsetSpec | None
    group_fallback: GroupFallback
    ending: OffsetSpec
    starting_timestamp: OffsetSpec | None
    starting_by_timestamp: OffsetSpec | None
    unmatched: Unmatched
    ending_timestamp: OffsetSpec | None
    ending_by_timestamp: OffsetSpec | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    backlog_takeover: bool
    backlog_takeover_min_rows: int
    max_readers_per_partition: int
    fail_on_data_loss: bool
    include_attributes: bool
    message_time_zone: str
    offsets_table: str | None
    offsets_table_mode: Literal["strict", "best_effort"]
    offset_commit_interval_ms: int
    storage_options: Mapping[str, str]
    commit_offsets_to_broker: bool
    reader_groups: tuple[str, ...] | None
    partition_refresh_interval_ms: int
    group_join_timeout_ms: int

    @property
    def assigned_keys(self) -> tuple[PartitionKey, ...]:
        """The partitions of `assign`, sorted; () where all partitions of the topics are read."""
        return tuple(sorted({PartitionKey.parse(text) for text in self.assigned}))

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are named, sorted; () where they are read by a pattern."""
        return self.subscribe or tuple(sorted({key.topic for key in self.assigned_keys}))

    @property
    def choice(self) -> str:
        """In words, what is read: topics, a pattern, or partitions."""
        if self.subscribe_pattern is not None:
            return f"topics that match {self.subscribe_pattern.pattern}"
        if self.assigned:
            return f"{len(self.assigned_keys)} assigned partitions of {', '.join(self.topics)}"
        return ", ".join(self.topics)

    def reads_topic(self, topic: str) -> bool:
        """Whether a topic is read, all of it or a part, if there is one of this name."""
        if self.subscribe_pattern is not None:
            return self.subscribe_pattern.fullmatch(topic) is not None
        return topic in self.topics

    def selector(self) -> Callable[[PartitionKey], bool]:
        """Return what tells whether a partition is read, if there is one of this key."""
        if self.assigned:
            return frozenset(self.assigned_keys).__contains__
        return lambda key: self.reads_topic(key.topic)

    def start_of(self, read: Literal["stream", "batch"]) -> OffsetSpec:
        """Where a read begins, its own default included."""
        default = OffsetSpec("startingOffsets", "latest" if read == "stream" else "earliest")
        return self.starting_timestamp or self.starting_by_timestamp or self.starting or default

    @property
    def end(self) -> OffsetSpec:
        """Where a batch read ends."""
        return self.ending_timestamp or self.ending_by_timestamp or self.ending

    def question(self, spec: OffsetSpec) -> str:
        """One text for all options that decide what offsets `spec` stands for."""
        deciding = [self.group_fallback] * spec.uses("group") + [self.message_time_zone, self.unmatched] * spec.by_time
        return " ".join([spec.text, *deciding])

    def for_tasks(self) -> SourceOptions:
        """These options without what only the planner needs: tasks get no plan and no access to the offsets table.

        They do need to be let in by brokers, so a password that stands in the options goes with them.
        """
        return replace(self, offsets_table=None, storage_options=Masked({}), assignment_hints=NO_HINTS)

    def check_stream(self, *, read_limits: bool = True) -> None:
        """Raise ConfigurationError for what makes no sense in a streaming read; Spark may have no `read_limits`."""
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
            if name in self.given and not read_limits:
                raise ConfigurationError(f"{name} needs Spark 4.2, the first that tells a Python source of limits")
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if name in self.given:
                raise ConfigurationError(
                    f"{name} belongs to batch reads; a streaming read ends with .trigger(availableNow=True)"
                )
        fewest, most = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if fewest is not None and most is not None and fewest > most:
            raise ConfigurationError(
                f"minOffsetsPerTrigger {fewest} is more than maxOffsetsPerTrigger {most}, so no batch could have that "
                "many rows; exchange or change them"
            )

    def check_batch(self) -> None:
        """Raise ConfigurationError for what makes no sense in a batch read; warn of what has no effect there."""
        if self.start_of("batch").uses("latest"):
            raise ConfigurationError(
                "startingOffsets may not be latest in a batch read: it would read nothing; use earliest"
            )
        if self.end.uses("earliest") or self.end.uses("group"):
            raise ConfigurationError(
                "endingOffsets may only be latest, or offsets; earliest (-2) and group are no ends"
            )
        check_order(self.start_of("batch"), self.end)
        idle = sorted(row.name for row in OPTIONS if row.reads == "stream" and row.name in self.given)
        if idle:
            _log.warning("options without effect in a batch read: %s", ", ".join(idle))


def parse_given(options: Mapping[str, str]) -> GivenOptions:
    """Return the parsed options; their names may come in any case, as Spark lower-cases them.

    Raises ConfigurationError that names one option, what is wrong and what to do; it quotes no secret.
    """
    values: dict[str, Any] = {}
    names = set()
    sparks_own = {name.lower(): name for name in SPARKS_OWN}
    for key in sorted(options):
        row = find_row(key)
        if row is None:
            if key.lower() not in sparks_own:
                raise ConfigurationError(_unknown(key))
            names.add(sparks_own[key.lower()])
            continue
        names.add(row.name)
        if row.name.endswith("*"):
            rest = key[len(row.name) - 1 :]
            values[row.field] = {**values.get(row.field, {}), rest: _parse(row, key, options[key])}
        else:
            values[row.field] = _parse(row, row.name, options[key])
    if asks_for_tls(names, values.get("tls_enabled")):  # the masters have another port for it
        for text in (text for key, text in options.items() if key.lower() == "masterservers"):
            values["master_servers"] = to.servers(text, tls=True)
    return GivenOptions(frozenset(names), values)


def read_options(given: GivenOptions) -> SourceOptions:
    """Return the options of a read; raises ConfigurationError for what is of no use there, missing or contradictory."""
    values = given.of("read")
    values["storage_options"] = Masked(values["storage_options"])
    parsed = SourceOptions(given=given.names, **values)
    _check_together(parsed)
    return parsed


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the options of a read, parsed and checked, as `parse_given` and `read_options` do one after the other."""
    return read_options(parse_given(options))


def _parse(row: OptionRow, name: str, text: str) -> Any:
    try:
        return row.parse(text)
    except ConfigurationError:
        raise  # says by itself which option it is about
    except ValueError as error:
        if row.secret:
            raise ConfigurationError(f"option {name} has a value that cannot be used") from None
        raise ConfigurationError(f"option {name} {error}") from None


def _unknown(key: str) -> str:
    names = {row.name.rstrip("*").lower(): row.name for row in OPTIONS}
    if key.lower() == "path":
        return (
            "tubeclient has no path: call .load(), .save() or .start() without one; subscribe names the topics to "
            "read, topic the one to write"
        )
    nearest = difflib.get_close_matches(key.lower(), names, n=1)
    hint = f"did you mean {names[nearest[0]]}?" if nearest else f"there are {', '.join(names.values())}"
    return f"option {key} is unknown; {hint}"


def _misplaced(name: str, use: Literal["read", "write"]) -> str:
    if name in SPARKS_OWN:
        return f"option {name} belongs to writeStream, not to a read"
    instead = {"topic": "subscribe", "subscribe": "topic", "assign": "topic", "subscribePattern": "topic"}.get(name)
    other = "writes" if use == "read" else "reads"
    return f"option {name} applies to {other} only; " + (f"did you mean {instead}?" if instead else "leave it out")


def _check_together(options: SourceOptions) -> None:
    """Check what no option can be checked for alone."""
    if sum(name in options.given for name in ("subscribe", "subscribePattern", "assign")) != 1:
        raise ConfigurationError(
            "give exactly one of subscribe, subscribePattern and assign: which topics to read by name, which by a "
            "regular expression, or which partitions"
        )
    _ = options.assigned_keys  # parses the keys
    strange = sorted(topic for topic in options.filters if not options.reads_topic(topic))
    if strange:
        read = options.subscribe_pattern
        raise ConfigurationError(
            f"filters names topic {strange[0]}, which is not read; the topics are "
            + (", ".join(options.topics) if read is None else f"those that match {read.pattern!r} as a whole")
        )
    # What was before and what is to be read the planner knows.
    hints = replace(options.assignment_hints, previous={}, lag={})
    check_strategy(options.assignment_strategy, options.source_count or 1, hints)
    check_access(options)
    for name in ("storageOption.*", "offsetsTableMode", "offsetCommitInterval"):
        if name in options.given and options.offsets_table is None:
            raise ConfigurationError(f"{name} is given without offsetsTable, the only thing that it is for")
    groups = len(options.reader_groups or reader_groups_of(options.consumer_group))
    if options.backlog_takeover and options.max_readers_per_partition > groups:
        raise ConfigurationError(
            f"maxReadersPerPartition is {options.max_readers_per_partition}, and each reader of a partition needs a "
            f"group of its own: there are {groups} readerGroups; name more of them, or lower it"
        )
    if options.reader_groups is not None and options.consumer_group in options.reader_groups:
        raise ConfigurationError(
            f"readerGroups names consumerGroup {options.consumer_group}; reading moves a reader group's position on "
            "the broker, so it has to be another group"
        )
