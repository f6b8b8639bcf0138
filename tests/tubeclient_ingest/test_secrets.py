"""A locked cluster, read by the whole command: the text of no secret option is left or shown anywhere.

The secrets come from environment variables, as the settings file says. Only those hold them.
"""

from __future__ import annotations

import contextlib
import json
import re
import stat
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from spark_source.options.given import OPTIONS
from tests.apache.jvm import free_ports
from tests.certificates import Certificate, CertificateAuthority, server_context
from tests.exactly_once.processes import Child, marked, none_left
from tests.spark_home import delta_confs
from tests.tubeclient_cli.ingest.command import START_SECONDS, rounds_in
from tests.waiting import wait_for
from tubeclient_cli.app import app

pytestmark = pytest.mark.spark

SECRETS = {
    "authPassword": "canary-of-the-user",
    "storageOption.AWS_SECRET_ACCESS_KEY": "canary-of-the-store",
    "storageOption.azure_storage_sas_key": "canary-of-another-store",
}
CANARY = "canary-of"


@pytest.mark.merge
def test_each_secret_option_has_a_canary() -> None:
    for option in OPTIONS:
        assert option.secret is any(option.matches(name) for name in SECRETS), option.name


QUERY = """
import json, os, sys, time
from pyspark_tubeclient import session

options = json.loads(os.environ["OPTIONS"])
spark = session(master="local[2]", conf=json.loads(sys.argv[1]))
read = {name: value for name, value in options.items() if not name.startswith("storageOption")}
batch = spark.read.format("tubeclient").options(**read).load()
batch.write.format("noop").mode("overwrite").save()
print(batch._jdf.queryExecution().toString())
options["offsetsTable"] = "./offsets"
stream = spark.readStream.format("tubeclient").options(**options).load()
print(stream._jdf.queryExecution().toString())
query = stream.writeStream.queryName("canaries").option("checkpointLocation", "checkpoint").start("table")
query.processAllAvailable()
query.explain(True)
print(query.recentProgress, query.status, spark.sparkContext.getConf().getAll())
open("progress.jsonl", "w").write("\\n\\n")
time.sleep(300)
"""


class Job:
    """A process that reads the cluster, in a folder that it writes to and nothing else does: the whole command with a
    settings file, or with `script` that Python, which finds all options in the variable OPTIONS."""

    def __init__(
        self,
        tube: EmbeddedTubeMQ,
        folder: Path,
        authority: CertificateAuthority,
        own: Certificate,
        script: str | None = None,
    ) -> None:
        self.folder = folder
        self.ui = f"http://127.0.0.1:{free_ports(1)[0]}"
        self.temporary = folder / "tmp"
        self.events = folder / "events"
        for made in (self.temporary, self.events):
            made.mkdir()
        variables = {f"SECRET_{number}": text for number, text in enumerate(SECRETS.values())}
        of = {name: f'{{ env = "SECRET_{number}" }}' for number, name in enumerate(SECRETS)}
        stores = "\n".join(
            f"{name.partition('.')[2]} = {value}" for name, value in of.items() if name.startswith("storage")
        )
        self.access = {
            "masterWebPort": str(tube.master_web_port),
            "authUser": "alice",
            "tls.caFile": authority.ca_file,
            "tls.certificateFile": own.certificate_file,
            "tls.keyFile": own.key_file,
        }
        (folder / "ingest.toml").write_text(f"""
[ingest]
master-servers = "{tube.master_tls_address}"
consumer-group = "clicks_etl"
topics = ["clicks"]
target = "{folder / "table"}"
offsets-table = "{folder / "offsets"}"
bad-records = "{folder / "bad"}"
format = "json"
schema = "id BIGINT"
starting-offsets = "earliest"
trigger = "1s"

[source]
authPassword = {of["authPassword"]}
{"".join(f'"{name}" = "{value}"' + chr(10) for name, value in self.access.items())}
[storage-options]
{stores}
""")
        confs = {
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "true",
            "spark.ui.port": self.ui.rpartition(":")[2],
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": self.events.as_uri(),
            **delta_confs(),
        }
        options = {**self.access, **SECRETS, "masterServers": tube.master_tls_address, "consumerGroup": "clicks_etl"}
        options |= {"subscribe": "clicks", "startingOffsets": "earliest"}
        command = [sys.executable, "-m", "tubeclient_cli.app", "ingest", "--settings", str(folder / "ingest.toml")]
        command += ["--spark-master", "local[2]", "--metrics-port", "0"]
        command += [word for name, value in confs.items() for word in ("--conf", f"{name}={value}")]
        if script is not None:
            (folder / "query.py").write_text(script)
            command = [sys.executable, "query.py", json.dumps(confs)]
            variables = {"OPTIONS": json.dumps(options)}
        mark = uuid.uuid4().hex
        more = {**variables, "TMPDIR": str(self.temporary), "TUBECLIENT_LOG_LEVEL": "DEBUG"}
        self.child = Child("ingest", command, folder / "log", mark, more)

    def batches(self) -> int:
        assert self.child.running, self.child.tail()
        progress = self.folder / "progress.jsonl"  # of a script
        return progress.read_text().count("\n") if progress.exists() else rounds_in(self.folder / "table")

    def files(self) -> str:
        """All files of the folder but the settings, by name and text."""
        found = ""
        for path in sorted(self.folder.rglob("*")):
            with contextlib.suppress(FileNotFoundError):  # Spark removes some meanwhile
                if path.is_file() and path.name != "ingest.toml":
                    found += f"{path}\n{path.read_bytes().decode(errors='replace')}\n"
        return found

    def pages(self) -> str:
        """Spark's UI and its REST API, and the metrics."""
        metrics = re.findall(r"^metrics at (\S+)$", self.child.log.read_text(), re.MULTILINE)
        [application] = json.loads(page(f"{self.ui}/api/v1/applications"))
        api = f"{self.ui}/api/v1/applications/{application['id']}"
        found = [page(url) for url in (*metrics, f"{api}/environment")]
        found += [page(f"{self.ui}/{name}/") for name in ("jobs", "stages", "environment", "SQL", "StreamingQuery")]
        found.append(page(f"{api}/sql?details=true&planDescription=true&length=1000"))
        for execution in json.loads(found[-1]):
            found.append(page(f"{self.ui}/SQL/execution/?id={execution['id']}"))
        return "\n".join(found)


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


@pytest.fixture
def job(
    request: pytest.FixtureRequest, tmp_path: Path, authority: CertificateAuthority, server_certificate: Certificate
) -> Iterator[tuple[Job, EmbeddedTubeMQ]]:
    """The command, or with a parameter that script."""
    own = authority.issue("ingest")
    tls = server_context(server_certificate, authority.ca_file)
    users = {"alice": SECRETS["authPassword"]}
    clicks = [TopicConfig("clicks")]
    with EmbeddedTubeMQ(tmp_path / "tube", clicks, users=users, tls=tls, check_visit_token=True) as tube:
        tube.load("clicks", [NewMessage(0, text) for text in (b'{"id": 1}', b"bad one", b'{"id": 2}')])
        (tmp_path / "job").mkdir()
        made = Job(tube, tmp_path / "job", authority, own, getattr(request, "param", None))
        with none_left(made.child.mark):
            try:
                yield made, tube
            finally:
                made.child.kill()


def command_output(job: Job, tube: EmbeddedTubeMQ) -> str:
    """What the commands that look at the job say."""
    connection = {**job.access, **{name: text for name, text in SECRETS.items() if not name.startswith("storage")}}
    cluster = ["--master-servers", tube.master_tls_address]
    cluster += [word for name, value in connection.items() for word in ("--option", f"{name}={value}")]
    stores = {name.partition(".")[2]: text for name, text in SECRETS.items() if name.startswith("storage")}
    store = [word for name, value in stores.items() for word in ("--storage-option", f"{name}={value}")]
    offsets = ["--offsets-table", str(job.folder / "offsets")]
    said = ""
    for words in (
        ["offsets", "show", *offsets, *store, *cluster, "--consumer-group", "clicks_etl"],
        ["offsets", "show", *offsets, *store, "--consumer-group", "clicks_etl"],
        ["doctor", *offsets, *store, *cluster, "--consumer-group", "clicks_etl", "--topic", "clicks"],
    ):
        result = CliRunner().invoke(app, words)
        assert result.exit_code in (0, 1), result.output
        said += result.output
    return said


def check(shown: dict[str, str], seen: dict[str, str]) -> None:
    """Each place shows what it should, so that a secret beside it would be seen; and no secret."""
    assert shown.keys() == seen.keys()
    for place, text in shown.items():
        assert seen[place] in text, place
        at = text.find(CANARY)
        assert at < 0, f"{place}: {text[max(0, at - 300) : at + 50]}"


def check_modes(folder: Path) -> None:
    """Only its user may read what a process writes for itself."""
    for path in folder.iterdir():
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path


def test_the_command_leaves_and_shows_no_secret(job: tuple[Job, EmbeddedTubeMQ]) -> None:
    ingest, tube = job
    wait_for(lambda: ingest.batches() >= 1, "a batch", seconds=START_SECONDS)
    tube.load("clicks", [NewMessage(0, b'{"id": 3}')])
    wait_for(lambda: ingest.batches() >= 2, "another batch", seconds=60)
    shown = {
        "command lines": "\n".join(one.command for one in marked(ingest.child.mark)),
        "pages": ingest.pages(),
        "commands": command_output(ingest, tube),
        "files while it runs": ingest.files(),
    }
    check_modes(ingest.temporary)
    ingest.child.ask_to_end()
    assert ingest.child.wait(120) == 0, ingest.child.tail()
    shown["files"] = ingest.files()
    for name in ("offsets", "bad", "table"):
        shown[name] = str(DeltaTable(str(ingest.folder / name)).to_pyarrow_table().to_pylist())
    seen = {"command lines": "pyspark.daemon", "pages": "tubeclient_query_rows_total", "commands": "clicks_etl"}
    seen |= {"files while it runs": "SparkListenerSQLExecutionStart", "files": "SparkListenerApplicationEnd"}
    check(shown, {**seen, "offsets": "clicks_etl", "bad": "bad one", "table": "'id': 3"})


@pytest.mark.merge
@pytest.mark.parametrize("job", [QUERY], indirect=True, ids=["query"])
def test_spark_shows_no_secret_of_a_query(job: tuple[Job, EmbeddedTubeMQ]) -> None:
    """Here the plans are the source's own: those of a streaming read that did not begin show all options."""
    query, _ = job
    wait_for(lambda: query.batches() >= 2, "the query", seconds=START_SECONDS)
    shown = {
        "command lines": "\n".join(one.command for one in marked(query.child.mark)),
        "pages": query.pages(),
        "printed": query.child.log.read_text(),
        "events": "\n".join(path.read_text() for path in query.events.rglob("events_*")),
        "files": query.files(),
    }
    check_modes(query.temporary)
    scan = "BatchScan tubeclient"
    seen = {"command lines": "query.py", "pages": scan, "printed": "authUser=alice", "events": scan, "files": "alice"}
    check(shown, seen)
