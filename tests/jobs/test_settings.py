"""Settings files and the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tubeclient.errors import ConfigurationError
from tubeclient_cli.app import app, short_cause, with_advice
from tubeclient_cli.common.session import REDACTION_REGEX
from tubeclient_cli.ingest.settings import IngestSettings, load_settings

ROOT = Path(__file__).resolve().parents[2]
NEEDED = {
    "master_servers": "127.0.0.1:8715",
    "consumer_group": "g",
    "topics": ("b", "a"),
    "target": "/t",
    "checkpoint": "/c",
}


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "ingest.toml"
    path.write_text(text)
    return path


def test_the_example_file_holds_every_setting_and_is_valid() -> None:
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


def test_spark_submit_gets_the_same_redaction_as_the_command() -> None:
    lines = (ROOT / "conf" / "spark-defaults.conf").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("spark.redaction.regex")]
    assert line.split(maxsplit=1)[1] == REDACTION_REGEX


def test_the_command_line_prevails_and_options_are_merged(tmp_path: Path) -> None:
    path = write(tmp_path, '[ingest]\ntarget = "/file"\n[source]\nmasterWebPort = 1\nfailOnDataLoss = false\n')
    overrides = {**NEEDED, "target": None, "source_count": 3, "source_options": {"masterWebPort": "2"}}
    settings = load_settings(path, overrides)
    assert (settings.target, settings.source_count) == ("/file", 3)
    assert settings.source_options == {"masterWebPort": "2", "failOnDataLoss": "false"}


def test_secrets_come_from_the_environment_and_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_KEY", "very-secret")
    text = """
        ingest.offsets-table = "/o"
        storage-options.AWS_SECRET_ACCESS_KEY = {env = "LAKE_KEY"}
        storage-options.x = "plain-secret"
    """
    settings = load_settings(write(tmp_path, text), NEEDED)
    assert settings.options("latest")["storageOption.AWS_SECRET_ACCESS_KEY"] == "very-secret"
    assert "secret" not in repr(settings).replace("AWS_SECRET_ACCESS_KEY", "")
    monkeypatch.delenv("LAKE_KEY")
    with pytest.raises(ConfigurationError, match="LAKE_KEY, which is not set"):
        load_settings(write(tmp_path, text), NEEDED)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[ingest", "is not TOML"),
        ("[ingst]", r"\[ingst\] is unknown; did you mean ingest"),
        ("ingest = 1", "ingest is not a table"),
        ('[ingest]\ntopic = "a"', "topic in .* is unknown; did you mean topics"),
        ('[ingest]\ntopics = "a"', "must be a list of names"),
        ("[ingest]\ntarget = 1", "target in .* must be a text"),
        ("[ingest]\nsource-count = true", "source-count in .* must be a whole number"),
        ('[ingest]\nstop-timeout-s = "1"', "stop-timeout-s in .* must be a number"),
        ("[ingest]\nstop-timeout-s = 0", "stop timeout is 0.0 s"),
        ("[storage-options]\nkey = 1234567", 'key in .* must be a text, or {env = "NAME"}'),
        ('[ingest]\ntrigger = "soon"', "trigger is 'soon'; .* or write available-now"),
        ('[source]\nmasterWebport = "x"', "option masterWebPort"),
        ('[source]\nmasterWebPorts = "1"', "did you mean masterWebPort"),
        ('[source]\nstartingoffsets = "latest"', "option startingoffsets has a setting of its own, starting-offsets"),
        ('[source]\nassign = "[]"', r"option assign has a setting of its own, topics \(--topic\)"),
        # What goes before startingOffsets would begin anywhere but where the target's rows end.
        *(
            (f'[source]\n{option} = "1"', f"option {option} has a setting of its own, starting-offsets")
            for option in ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy")
        ),
        (
            '[ingest]\nstarting-offsets = "erliest"',
            "starting-offsets is 'erliest'; write earliest, .* a time as 2026-11",
        ),
        ('[ingest]\nstarting-offsets = "1969-01-01"', "starting-offsets is '1969-01-01', which is before 1970"),
    ],
)
def test_a_wrong_file_is_told_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        load_settings(write(tmp_path, text), NEEDED)
    assert "1234567" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nothere\.toml cannot be read: No such file"):
        load_settings(tmp_path / "nothere.toml", NEEDED)


def test_what_is_needed_and_not_given_is_listed() -> None:
    with pytest.raises(ConfigurationError, match=r"--topic, --target, --checkpoint$"):
        load_settings(None, {"master_servers": "m", "consumer_group": "g"})


def test_blank_folders_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="checkpoint is blank"):
        IngestSettings(**{**NEEDED, "checkpoint": " "})  # type: ignore[arg-type]


def test_what_is_begun_anew_is_for_one_run(tmp_path: Path) -> None:
    assert load_settings(None, {**NEEDED, "begin_anew": ("a",)}).begin_anew == ("a",)
    with pytest.raises(ConfigurationError, match="begin-anew names c, which the job does not read"):
        load_settings(None, {**NEEDED, "begin_anew": ("a", "c")})
    with pytest.raises(ConfigurationError, match=r"begin-anew ignores .*, and starting-offsets group uses them"):
        load_settings(None, {**NEEDED, "begin_anew": ("a",), "starting_offsets": "group"})
    with pytest.raises(ConfigurationError, match=r"begin-anew in .* is unknown"):
        load_settings(write(tmp_path, '[ingest]\nbegin-anew = ["a"]\n'), NEEDED)


def test_former_masters_are_written_as_masters_are(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, '[ingest]\nformer-masters = "old-1:1, old-2"\n'), NEEDED)
    assert settings.former_master_servers == ("old-1:1", "old-2:8715")
    assert load_settings(None, NEEDED).former_master_servers == ()
    with pytest.raises(ConfigurationError, match=r"'old:x' in .* is not host:port"):
        load_settings(None, {**NEEDED, "former_masters": "old:x"})


def test_available_now_has_no_interval() -> None:
    assert load_settings(None, NEEDED).interval_ms is None
    assert load_settings(None, {**NEEDED, "trigger": "0s"}).interval_ms == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ingest"], "not given"),
        (["ingest", "--option", "geheim"], "--option takes NAME=VALUE"),
        (["ingest", "--conf", "=geheim"], "--conf takes NAME=VALUE"),
        (["ingest", "--settings", "nothere.toml"], "cannot be read"),
    ],
)
def test_wrong_arguments_are_exit_code_2_before_spark_is_started(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert said in result.output
    assert "geheim" not in result.output


def test_help_and_version_are_worth_reading() -> None:
    result = CliRunner().invoke(app, ["ingest", "--help"], env={"COLUMNS": "100"})
    assert result.exit_code == 0
    for words in ("--offsets-table", "storage-options", "Ctrl-C", "tubeclient ingest --master-servers"):
        assert words in result.output
    assert CliRunner().invoke(app, ["--version"]).output.startswith("pyspark-tubeclient ")


def test_of_a_failed_query_the_python_error_is_told() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_STREAMING] failed:\n"
        "Traceback (most recent call last):\n"
        '  File "x.py", line 1, in f\n'
        "ValueError: first\n"
        "tubeclient.errors.DataLoss: 1:clicks:0 lost [0, 28)\n"
        "\tat org.apache.spark.Foo\n"
        "org.apache.spark.SparkException: Job aborted\n"
    )
    assert short_cause(text) == "tubeclient.errors.DataLoss: 1:clicks:0 lost [0, 28)"
    assert short_cause("[TABLE_NOT_FOUND] no\nmore") == "[TABLE_NOT_FOUND] no"
    java = "An error occurred while calling z:io.delta.tables.DeltaTable.isDeltaTable.\n: java.lang.X: no s3a\n\tat a.b"
    assert short_cause(java) == "java.lang.X: no s3a"
    without = "[STREAM_FAILED] Query [id = 1] terminated with exception:  SQLSTATE: XXKST (no cause message)"
    assert short_cause(f"{without}\nmore").startswith(f"{without}. Usually the source's process beside the driver")


def test_of_a_loss_this_jobs_way_out_is_told() -> None:
    lost = (
        "tubeclient.errors.DataLoss: partition 1:clicks:0 was to be read from 560 on, but the broker's data ends at 28"
    )
    assert with_advice(lost).startswith(f"{lost}. If a topic was deleted and created again, ")
    assert "--begin-anew TOPIC" in with_advice(lost)
    assert with_advice("ValueError: first") == "ValueError: first"


def test_a_time_to_start_at_is_one_of_the_sources_options() -> None:
    given = {"master_servers": "h:1", "consumer_group": "g", "topics": ("t",), "target": "/t", "checkpoint": "/c"}
    for text in ("2026-11-21T10:31Z", "2026-11-21T10:31", "2026-11-21T11:31+01:00"):
        settings = load_settings(None, {**given, "starting_offsets": text})
        options = settings.options(settings.fallback)
        assert options["startingTimestamp"] == "1795257060000"
        assert options["startingOffsetsByTimestampStrategy"] == "latest"
        assert "startingOffsets" not in options
    for word, begins in ((None, "earliest"), ("Target", "earliest"), (" LATEST ", "latest"), ("group", "group")):
        settings = load_settings(None, {**given, "starting_offsets": word})
        assert settings.options(settings.fallback)["startingOffsets"] == begins
