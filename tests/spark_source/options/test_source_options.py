"""Options: every wrong one is refused by name before anything is contacted, and secrets are never shown."""

from __future__ import annotations

import logging
import pickle

import pytest

from spark_source.options.given import parse_given, parse_options
from spark_source.options.source_options import SinkOptions, SourceOptions
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey

LEAST = {"masterservers": "127.0.0.1:8715", "consumergroup": "g", "subscribe": "t"}


def parse(**more: str) -> SourceOptions:
    return parse_options({**LEAST, **more})


def test_names_come_in_any_case_and_values_are_parsed() -> None:
    options = parse_options(
        {
            "MasterServers": "a, b:9000 ,a:8715",
            "consumergroup": " g ",
            "SUBSCRIBE": "t2, t1,t2",
            "filters": '{"t1": ["y", "x", "y"]}',
            "sourceCount": "4",
            "assignmentstrategy": "Hash_Modulo",
            "maxoffsetspertrigger": "1000",
            "failondataloss": "FALSE",
            "columns": "*, attributes",
            "messagetimezone": "Asia/Shanghai",
            "offsetsTable": " /lake/o ",
            "storageoption.aws_region": "eu",
            "partitionrefreshinterval": "2 minutes",
            "rpctimeout": "1500ms",
            "groupjointimeout": "0s",
            "retrylimit": "2m",
            "masterwebport": "8081",
        }
    )
    assert options.master_servers == ("a:8715", "b:9000")
    assert options.consumer_group == "g"
    assert options.topics == ("t1", "t2")
    assert options.filters == {"t1": frozenset({"x", "y"})}
    assert (options.source_count, options.assignment_strategy) == (4, "hash_modulo")
    assert options.max_offsets_per_trigger == 1000
    assert (options.fail_on_data_loss, options.include_attributes) == (False, True)
    assert options.message_time_zone == "Asia/Shanghai"
    assert options.offsets_table == "/lake/o"
    assert dict(options.storage_options) == {"aws_region": "eu"}
    assert options.partition_refresh_interval_ms == 120_000
    assert (options.rpc_timeout_ms, options.group_join_timeout_ms, options.retry_limit_ms) == (1_500, 0, 120_000)
    assert options.master_web_port == 8081


def test_assign_names_partitions_and_topics() -> None:
    """assign names the partitions to read and thereby the topics."""
    options = parse_options(
        {"masterservers": "m", "consumergroup": "g", "assign": '["1:b:10000", "2:a:3", "1:b:10000"]'}
    )
    assert options.assigned == (PartitionKey(1, "b", 10000), PartitionKey(2, "a", 3))
    assert options.topics == ("a", "b")
    assert options.for_tasks().assigned == ()  # they have ranges


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sourcecuont": "3"}, r"option sourcecuont is unknown; did you mean sourceCount\?"),
        ({"provider": "tubeclient", "option.subscribe": "t"}, "a catalog table .* CREATE TEMPORARY VIEW name"),
        ({"path": "/x"}, "has no path"),
        ({"consumergroup": "a b"}, "option consumerGroup is not usable: 'a b' is not a group name: .* no blanks"),
        (
            {"consumergroup": "etl-r0"},
            "option consumerGroup is etl-r0, the form of a reader group: reading ranges for group etl moves the "
            "positions of such groups on the brokers, so messages would be repeated or lost. Use a name that does "
            "not end in -r and a number",
        ),
        ({"subscribe": "a,,b"}, "option subscribe is not usable: '' is not a topic name"),
        ({"assign": '["1:t:0"]'}, "exactly one of subscribe .* and assign"),
        ({"sourcecount": "0"}, "option sourceCount is '0'; write a whole number from 1 to 10000"),
        ({"assignmentstrategy": "x"}, "one of averagely, .*, hash_modulo"),
        ({"startingoffsets": "first"}, "startingOffsets is 'first'; write earliest, latest, group, or JSON"),
        ({"startingoffsets": '{"1:t:0": 28, "01:t:0": 56}'}, "startingOffsets names 1:t:0 twice"),
        ({"startingoffsets": '{"1:t:0": {"3": 28}, "1:t:3": 56}'}, "startingOffsets names 1:t:3 twice"),
        ({"filters": '{"a": ["x"], " a": ["y"]}'}, "topic a is named twice"),
        (
            {"startingoffsets": '{"1:t:0": 27}'},
            "the offset 27 of 1:t:0 in startingOffsets is not 0 or a positive multiple of 28",
        ),
        (
            {"startingoffsets": '{"t": 28}'},
            r'startingOffsets names .t., which is not a partition; .* \{"1:clicks:0": 2800\}$',
        ),
        (
            {"startingoffsets": '{"t": {"0": 28}}'},
            "names 't', which is not a partition; .*, not by topic as for Kafka's",
        ),
        ({"startingoffsets": '{"default": -3}'}, "the offset -3 of startingOffsets's default entry"),
        ({"offsetstable": "mydb.offsets"}, "option offsetsTable is 'mydb.offsets', without a slash"),
        ({"offsetstable": "s3://me:hunter2@lake/o"}, "option offsetsTable contains a password or a query"),
        ({"offsetstable": "https://a/b?sig=hunter2"}, "option offsetsTable contains a password or a query"),
        ({"offsetstable": "s3a://me:hunter2/80/x@lake/o"}, "option offsetsTable contains a password or a query"),
        ({"failondataloss": "yes"}, "option failOnDataLoss is 'yes'; write true or false"),
        ({"messagetimezone": "Mars/North"}, "messageTimeZone is not usable: 'Mars/North' is not a time zone"),
        ({"filters": "[]"}, "option filters is '..'; write tags separated by commas, or JSON"),
        (
            {"filters": '{"t": ["a,b"]}'},
            "option filters is not usable: the filter of topic t cannot be used: 'a,b' is not a tag name",
        ),
        ({"filters": '{"other": ["a"]}'}, "filters names topic other, which is not read; the topics are t"),
        ({"rpctimeout": "10"}, "rpcTimeout is '10'; write a number and a unit"),
        ({"rpctimeout": "1ms"}, "the minimum is 100ms, the maximum 36500d"),
        ({"storageoption.secret": "s3cr3t"}, "storageOption.* is given without offsetsTable"),
    ],
)
def test_wrong_options_are_refused(more: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        parse(**more)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["masterServers", "consumerGroup"])
def test_missing_options_are_named(name: str) -> None:
    options = {key: value for key, value in LEAST.items() if key != name.lower()}
    with pytest.raises(ConfigurationError, match=f"option {name} is required; add .option"):
        parse_options(options)


def test_streaming_and_batch_have_their_own_rules(caplog: pytest.LogCaptureFixture) -> None:
    parse().check_stream()
    parse().check_batch()
    assert not caplog.records
    with pytest.raises(ConfigurationError, match=r"endingOffsets is for batch reads only; .*availableNow=True"):
        parse(endingoffsets="latest").check_stream()
    for limit in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger"):
        with pytest.raises(ConfigurationError, match=rf"{limit} needs Spark 4\.2 or newer, which supports limits"):
            parse(**{limit: "10"}).check_stream(read_limits=False)
    for latest in ("latest", '{"1:t:0": -1, "default": -2}', '{"default": "latest"}'):
        with pytest.raises(ConfigurationError, match="must not be latest in a batch read"):
            parse(startingoffsets=latest).check_batch()
    for no_end in ("earliest", "group", '{"default": -2}'):
        with pytest.raises(ConfigurationError, match="endingOffsets must be latest"):
            parse(endingoffsets=no_end).check_batch()
    with caplog.at_level(logging.WARNING):
        parse(maxoffsetspertrigger="5", groupjointimeout="1s").check_batch()
    assert "that have no effect in a batch read: groupJoinTimeout, maxOffsetsPerTrigger" in caplog.text


def test_options_of_position_reads(caplog: pytest.LogCaptureFixture) -> None:
    """What decides the rows is taken without a word, and an end, which no stream has, is an error."""
    of_both = {"filters": "a", "offsetstable": "/o", "storageoption.k": "v", "masterwebport": "1", "retrylimit": "1s"}
    parse(readpositions="true", **of_both).check_batch()
    assert not caplog.records
    of_messages = {"startingoffsets": "latest", "columns": "value", "payload": "inlong", "maxoffsetspertrigger": "5"}
    with caplog.at_level(logging.WARNING):
        parse(readpositions="true", **of_messages).check_batch()
    assert "in a read of positions: columns, maxOffsetsPerTrigger, payload, startingOffsets" in caplog.text
    for name, value in {"endingOffsets": "latest", "endingTimestamp": "1700000000000"}.items():
        with pytest.raises(ConfigurationError, match=f"{name} has no effect on positions"):
            parse(readpositions="true", **{name: value}).check_batch()
    for value in ("true", "false"):
        with pytest.raises(ConfigurationError, match=r"readPositions is for batch reads only; .* with spark\.read"):
            parse(readpositions=value).check_stream()


def test_secrets_are_not_shown_and_not_sent_to_tasks() -> None:
    secret = "hunter2-hunter2"
    options = parse(offsetstable="./o", **{"storageoption.aws_secret_access_key": secret})
    assert options.storage_options["aws_secret_access_key"] == secret
    assert secret not in repr(options)
    assert secret not in repr(parse_given({"storageoption.aws_secret_access_key": secret}))
    assert secret.encode() in pickle.dumps(options)
    assert secret.encode() not in pickle.dumps(options.for_tasks())
    assert options.for_tasks().consumer_group == "g"
    with pytest.raises(ConfigurationError) as caught:
        parse(offsetstable=" ", **{"storageoption.aws_secret_access_key": secret})
    assert secret not in str(caught.value)
    with pytest.raises(ConfigurationError) as caught:
        parse(offsetstable="./o", **{"storageoption.key": "  "})
    assert "storageoption.key has an invalid value" in str(caught.value)


def write(**given: str) -> SinkOptions:
    return parse_given({"masterservers": "m", **given}).of(SinkOptions)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"subscribe": "t"}, r"option subscribe applies to reads only; did you mean topic\?"),
        ({"consumergroup": "g"}, "option consumerGroup applies to reads only; leave it out"),
        ({"offsetstable": "./o", "storageoption.key": "hunter2"}, "option offsetsTable applies to reads only"),
        ({"topic": "a,b"}, "option topic is 'a,b'; write one topic"),
        ({"topics": "t"}, r"option topics is unknown; did you mean topic\?"),
    ],
)
def test_wrong_options_of_a_write_are_refused(more: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        write(**more)
    assert "hunter2" not in str(caught.value)
