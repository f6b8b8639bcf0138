"""Settings: files, the command line over them, and what the source is told."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from spark_source.options.given import parse_options
from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import MASTERS_VARIABLE, of_environment
from tubeclient_ingest.job import Ingest
from tubeclient_ingest.settings.ingest_settings import IngestSettings
from tubeclient_ingest.settings.load_settings import IngestArguments, load_settings

ROOT = Path(__file__).resolve().parents[2]
NEEDED = {"master_servers": "127.0.0.1:8715", "consumer_group": "g", "topics": ("b", "a"), "target": "/t"}


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "ingest.toml"
    path.write_text(text)
    return path


def test_example_file() -> None:
    """The example file is valid, and the source gets the options that it sets."""
    settings = load_settings(ROOT / "conf" / "ingest.toml", {})
    assert settings.topics == ("clicks",)
    assert settings.interval_ms == 10_000
    assert settings.options("latest") == {
        "masterServers": "10.0.0.1:8715,10.0.0.2:8715",
        "consumerGroup": "clicks_etl",
        "subscribe": "clicks",
        "startingOffsets": "latest",
        "offsetsTable": "s3://lake/_offsets",
        "sourceCount": "8",
        "maxOffsetsPerTrigger": "2000000",
        "masterWebPort": "8080",
        "failOnDataLoss": "true",
    }


def test_command_line_overrides_the_file(tmp_path: Path) -> None:
    """The command line overrides the file, and source options of both are merged."""
    path = write(tmp_path, '[ingest]\ntarget = "/file"\n[source]\nmasterWebPort = 1\nfailOnDataLoss = false\n')
    for name in ("masterWebPort", "masterwebport"):
        overrides = {**NEEDED, "target": None, "source_count": 3, "source_options": {name: "2"}}
        settings = load_settings(path, overrides)
        assert (settings.target, settings.source_count) == ("/file", 3)
        assert settings.source_options == {name: "2", "failOnDataLoss": "false"}


def test_masters_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names the masters only if neither the file nor the command line does."""
    monkeypatch.setenv(MASTERS_VARIABLE, "10.9.9.9:8715")
    others = {name: value for name, value in NEEDED.items() if name != "master_servers"}
    assert load_settings(None, others, of_environment()).master_servers == "10.9.9.9:8715"
    assert load_settings(None, NEEDED, of_environment()).master_servers == "127.0.0.1:8715"
    path = write(tmp_path, '[ingest]\nmaster-servers = "10.0.0.1:8715"')
    assert load_settings(path, others, of_environment()).master_servers == "10.0.0.1:8715"
    # A job in a program has what the program says.
    with pytest.raises(ConfigurationError, match=r"missing: master-servers$"):
        load_settings(None, others)


def test_secrets_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets come from environment variables, and no text shows them."""
    monkeypatch.setenv("LAKE_KEY", "very-secret")
    text = """
        ingest.offsets-table = "/o"
        storage-options.AWS_SECRET_ACCESS_KEY = {env = "LAKE_KEY"}
        storage-options.x = "plain-secret"
        source.authUser = "alice"
        source.authPassword = "another-secret"
    """
    settings = load_settings(write(tmp_path, text), NEEDED)
    assert settings.options("latest")["storageOption.AWS_SECRET_ACCESS_KEY"] == "very-secret"
    assert "secret" not in repr(settings).replace("AWS_SECRET_ACCESS_KEY", "")
    monkeypatch.delenv("LAKE_KEY")
    with pytest.raises(ConfigurationError, match="LAKE_KEY, which is not set"):
        load_settings(write(tmp_path, text), NEEDED)
    with pytest.raises(ConfigurationError, match="variable, which is not set") as caught:
        load_settings(write(tmp_path, text.replace("LAKE_KEY", "very/secret")), NEEDED)
    assert "very/secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[ingest", "is not TOML"),
        ('[source]\nauthPassword = ["1234567"]', "authPassword in .source. must be a text in quotes, a number"),
        ('[source]\nauthPassword = {evn = "1234567"}', "authPassword in .source. must be a text in quotes, a number"),
        ('[source]\ntls.caFile = "ca.pem"', 'tls in .source. must be .* as in "tls.NAME"'),
        ("[ingst]", r"\[ingst\] is unknown; did you mean ingest"),
        ("ingest = 1", "ingest is not a table"),
        ('[ingest]\ntopic = "a"', "topic in .* is unknown; did you mean topics"),
        ('[ingest]\npayload = "inlong"', r"payload in .* is unknown; .*; options of the source are below \[source\]"),
        ('[ingest]\noption = ["a=b"]', r"option in .* is unknown; write each NAME = VALUE below \[source\]"),
        ('[ingest]\nformat-option = "a=b"', r"is unknown; write each NAME = VALUE below \[format-options\]"),
        ('[ingest]\ntopics = "a"', "must be a list of names"),
        ("[ingest]\ntarget = 1", "target in .* must be a text"),
        ("[ingest]\nsource-count = true", "source-count in .* must be a whole number"),
        ("[ingest]\nmax-bad-records = 1", "max-bad-records needs bad-records"),
        ("[storage-options]\nkey = 1234567", 'key in .* must be a text, or {env = "NAME"}'),
        ('[ingest]\ntrigger = "soon"', "trigger is 'soon'; .* or write available-now"),
        ('[source]\nmasterWebPorts = "1"', "did you mean masterWebPort"),
        ('[source]\nstartingoffsets = "latest"', "option startingoffsets has its own setting, starting-offsets"),
        (
            '[ingest]\nbad-records = "/b"\n[source]\ncolumns = "value, topic"',
            "columns lacks partitionKey, messageId. The",
        ),
        ('[source]\nassign = "[]"', "option assign has its own setting, topics"),
        ('[source]\nreadPositions = "true"', "readPositions is for batch reads only; read positions with spark.read"),
        # What goes before startingOffsets would begin anywhere but where the target's rows end.
        ('[source]\nstartingTimestamp = "1"', "option startingTimestamp has its own setting, starting-offsets"),
        (
            '[ingest]\nstarting-offsets = "erliest"',
            "starting-offsets is 'erliest'; write earliest, .* a time such as 2026-11",
        ),
        ('[ingest]\nstarting-offsets = "1969-01-01"', "starting-offsets is '1969-01-01', which is before 1970"),
    ],
)
def test_a_wrong_file_is_told_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        load_settings(write(tmp_path, text), NEEDED)
    assert "1234567" not in str(caught.value)


def test_arguments_are_what_a_file_has() -> None:
    more = {
        "target": Path("/t"),
        "max_bad_records": 5,
        "bad_records": "/b",
        "source_options": {"failOnDataLoss": False},
    }
    settings = load_settings(None, {**NEEDED, **more, "format_options": {}, "trigger": "5s"})
    assert (settings.topics, settings.target, settings.max_bad_records) == (("a", "b"), "/t", 5)
    assert settings.source_options == {"failOnDataLoss": "false"}
    for wrong, said in (
        ({"trigger": 5}, r"^trigger must be a text in quotes"),
        ({"evolve": "no"}, "^evolve must be true or false"),
        ({"topics": "id"}, "^topics must be a list of names"),
        ({"tpoics": ["a"]}, "^tpoics is unknown; did you mean topics"),
        ({"starting_offsets": "erliest"}, "^starting-offsets is 'erliest'"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            load_settings(None, {**NEEDED, **wrong})


def test_what_is_needed_and_not_given_is_listed() -> None:
    with pytest.raises(ConfigurationError, match=r"missing: topics, target$"):
        load_settings(None, {"master_servers": "m", "consumer_group": "g"})


def test_password_in_a_path() -> None:
    """Settings refuse a path that contains a password, and the error does not show it."""
    secrets = ("s3a://key:very-secret@bucket/t", "s3a://key:80/very-secret@bucket/t", "wasbs://b@c/t?sig=very-secret")
    for name, place in product(("target", "bad_records", "offsets_table"), secrets):
        with pytest.raises(ConfigurationError, match="contains a password") as caught:
            load_settings(None, {**NEEDED, name: place})
        assert "very-secret" not in str(caught.value)
    kept = "abfss://box@account/t"
    assert load_settings(None, {**NEEDED, "target": kept}).target == kept


def test_blanks_around_a_path() -> None:
    """Settings strip the blanks around a path or a table's name."""
    places = {"target": "lake.clicks", "offsets_table": "/o", "bad_records": "s3a://b/r"}
    settings = load_settings(None, {**NEEDED, **{name: f" {place}\n" for name, place in places.items()}})
    assert {name: getattr(settings, name) for name in places} == places


def test_offsets_are_reset_to_a_place() -> None:
    job = load_settings(None, {**NEEDED, "starting_offsets": "target"})
    job.check_topics([])
    with pytest.raises(ConfigurationError, match="is target, but offsets cannot be reset to that"):
        job.check_topics(job.topics)
    replace(job, starting_offsets="group").check_topics(job.topics)


def test_former_masters_are_written_as_masters_are(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, '[ingest]\nformer-masters = "old-1:1, old-2"\n'), NEEDED)
    assert settings.former_master_servers == ("old-1:1", "old-2:8715")
    assert load_settings(None, NEEDED).former_master_servers == ()
    with pytest.raises(ConfigurationError, match=r"former-masters has 'old:x', which is not host:port"):
        load_settings(None, {**NEEDED, "former_masters": "old:x"})


def test_bad_messages_option() -> None:
    """The source passes on bad messages if bad-records is set, unless the user says otherwise."""
    for given, said in (({}, "keep"), ({"badmessages": "fail"}, "fail")):
        settings = load_settings(None, {**NEEDED, "bad_records": "/bad", "source_options": given})
        options = {name.lower(): value for name, value in settings.options("earliest").items()}
        assert options["badmessages"] == said
    assert "badMessages" not in load_settings(None, NEEDED).options("earliest")


def test_time_zone_of_messages() -> None:
    """The time zone applies to the messages' times too, unless the source has its own."""
    given: tuple[tuple[dict[str, str], str], ...] = (({}, "Asia/Tokyo"), ({"messagetimezone": "UTC"}, "UTC"))
    for kind in ({}, {"format": "csv", "schema": "at TIMESTAMP"}):
        for own, zone in given:
            settings = load_settings(None, {**NEEDED, **kind, "time_zone": "Asia/Tokyo", "source_options": own})
            assert parse_options(settings.options("earliest")).message_time_zone == zone
        assert parse_options(load_settings(None, {**NEEDED, **kind}).options("earliest")).message_time_zone == "UTC"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_bad_records": 5}, "max-bad-records needs bad-records"),
        ({"bad_records_without_value": True}, "bad-records-without-value needs bad-records; name a table"),
        ({"bad_records": " "}, "bad-records is blank"),
        ({"target": "visits"}, "target is 'visits'; for a table of a catalog write default.visits"),
        ({"bad_records": "/o/x", "offsets_table": "/o"}, "bad-records and offsets-table are the same"),
        ({"bad_records": "file:/t"}, "bad-records and target are the same folder"),
        ({"bad_records": "Lake.`T`", "target": "lake.t"}, "bad-records and target are the same"),
        ({"bad_records": "/bad", "max_bad_records": -1}, "max-bad-records is -1; it must be 0 or more"),
    ],
)
def test_wrong_settings_of_bad_records_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_settings(None, {**NEEDED, **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"table_format": "hudi"}, "table-format is 'hudi'; write delta or iceberg"),
        ({"warehouse": "/lake"}, "warehouse is for table-format iceberg"),
        (
            {"warehouse": "lake", "table_format": "iceberg"},
            "warehouse is 'lake', but must be the absolute path of a folder",
        ),
        ({"warehouse": " ", "table_format": "iceberg"}, "warehouse is ' ', but must be the absolute path of a folder"),
        (
            {"warehouse": "/a#b", "table_format": "iceberg"},
            "warehouse is '/a#b', but must be the absolute path of a folder",
        ),
        ({"target": "a.b", "table_format": "iceberg"}, r"name it as CATALOG\.NAMESPACE\.TABLE"),
        (
            {"target": "a", "table_format": "iceberg", "warehouse": "/lake"},
            r"for a table of a catalog write default\.a",
        ),
        ({"target": "/a/b", "table_format": "iceberg", "warehouse": "/lake"}, r"name it as NAMESPACE\.TABLE"),
        ({"table_format": "iceberg", "bad_records": "/bad"}, "bad-records is /bad; with table-format iceberg"),
        ({"table_format": "iceberg", "cluster_by": ("x",)}, "cluster-by is for table-format delta"),
        ({"table_format": "iceberg", "writer": "spark"}, "writer spark is for table-format delta"),
        ({"table_format": "iceberg", "key": ("x",)}, "key is for table-format delta"),
    ],
)
def test_settings_unfit_for_the_table_format(given: dict[str, Any], message: str) -> None:
    """Loading refuses settings that do not fit the table format."""
    with pytest.raises(ConfigurationError, match=message):
        load_settings(None, {**NEEDED, "target": "lake.shop.orders", **given})


def test_starting_time() -> None:
    """A time in starting-offsets becomes the source's startingTimestamp."""
    for text in ("2026-11-21T10:31Z", "2026-11-21T10:31", "2026-11-21T11:31+01:00"):
        settings = load_settings(None, {**NEEDED, "starting_offsets": text})
        options = settings.options(settings.fallback)
        assert options["startingTimestamp"] == "1795257060000"
        assert "startingOffsets" not in options
    for word, begins in (
        (None, "earliest"),
        ("Target", "earliest"),
        (" LATEST ", "latest"),
        ("group", "group:earliest"),
    ):
        settings = load_settings(None, {**NEEDED, "starting_offsets": word})
        assert settings.options(settings.fallback)["startingOffsets"] == begins


def test_layout_and_table_properties(tmp_path: Path) -> None:
    """A new target gets the layout and the properties of the file and the command line."""
    text = '[ingest]\npartition-by = ["topic", "day"]\n[table-properties]\n"delta.appendOnly" = true\nb = "2"\n'
    settings = load_settings(write(tmp_path, text), {**NEEDED, "table_properties": {"b": "3", "c": "4"}})
    assert (settings.partition_by, settings.cluster_by) == (("topic", "day"), ())
    assert settings.table_properties == {"delta.appendOnly": "true", "b": "3", "c": "4"}
    assert load_settings(None, NEEDED).table_properties == {}
    with pytest.raises(ConfigurationError, match=r"^partition-by and cluster-by exclude each other"):
        load_settings(write(tmp_path, text), {**NEEDED, "cluster_by": ("topic",)})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"until": "soon"}, "until is 'soon'; write a time such as 2026-11-21T10:31Z, or JSON"),
        ({"until": '{"1:a:0": "latest"}'}, "or JSON from partition keys to offsets"),
        ({"until": '{"1:a:0": -1}'}, "or JSON from partition keys to offsets"),
        ({"until": "{}"}, "or JSON from partition keys to offsets"),
        ({"until": '{"1:a:0": 27}'}, "27"),
        ({"until": "2124-01-02T03:04Z"}, "until is a time that has not passed yet"),
        (
            {"until": "2024-01-02T03:04Z", "trigger": "10s"},
            "until is for a job that ends, but with trigger 10s the job keeps running",
        ),
        ({"until": "2024-01-02T03:04Z", "starting_offsets": "latest"}, "starting-offsets is latest"),
        (
            {"until": "2024-01-02T03:04Z", "starting_offsets": "2024-01-02T03:05Z"},
            r"until 1704164640000 \(2024-01-02 03:04 UTC\) is before starting-offsets",
        ),
        ({"source_options": {"endingOffsets": "latest"}}, "until"),
    ],
)
def test_an_end_that_does_not_fit(given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        load_settings(None, {**NEEDED, **given})
    load_settings(None, {**NEEDED, "until": "2024-01-02T03:04Z", "starting_offsets": "2024-01-02T03:04Z"})


def test_pythons_help_and_completion_name_each_setting() -> None:
    names = [one.name for one in fields(IngestSettings)]
    assert [*inspect.signature(Ingest).parameters] == ["spark", "settings", "stop", *names]
    assert [*IngestArguments.__annotations__] == names


def test_a_job_without_a_session_is_told_at_once() -> None:
    nothing: Any = None
    with pytest.raises(ConfigurationError, match="spark is None; pass a SparkSession"):
        Ingest(nothing, **dict[str, Any](NEEDED))
