"""`tubeclient topics` on an embedded cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded_tubemq import DEFAULT_TOKEN, EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.tubeclient_cli.clusters import ClusterCommands
from tubeclient import ClientSettings, RemoteError
from tubeclient.admin import Admin
from tubeclient.errors import ConfigurationError

TOKEN = {"TUBECLIENT_MODIFY_TOKEN": DEFAULT_TOKEN}
NO_TOKEN = {"TUBECLIENT_MODIFY_TOKEN": ""}


@pytest.fixture
def tube(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks", 2, 3)], brokers=2) as running:
        yield running


@pytest.fixture
def cluster(tube: EmbeddedTubeMQ) -> ClusterCommands:
    return ClusterCommands.of(tube)


def test_what_there_is(tube: EmbeddedTubeMQ, cluster: ClusterCommands) -> None:
    tube.load("clicks", [NewMessage(0, b"x")] * 5, broker_id=2)
    text = [" ".join(line.split()) for line in cluster.text("topics", "list").splitlines()]
    assert text[-1] == "clicks 1048576 12 2 yes"
    assert [topic["partitions"] for topic in cluster.json("topics", "list")["topics"]] == [12]
    shown = cluster.json("topics", "show", "clicks")
    assert [(one["stores"], one["partitionsPerStore"], one["loaded"]) for one in shown["brokers"]] == [(2, 3, True)] * 2
    assert {"store": "2:clicks:0", "firstOffset": 0, "endOffset": 140, "messagesAtMost": 5} in shown["stores"]
    lines = [" ".join(line.split()) for line in cluster.text("topics", "show", "clicks").splitlines()]
    assert "2:clicks:0 0 140 5" in lines


def test_a_topic_is_created_and_altered(cluster: ClusterCommands, tmp_path: Path) -> None:
    made = cluster.text("topics", "create", "views", "--stores", "2", env=TOKEN)
    assert made == "topic views was created: 4 partitions on 2 brokers\n"
    (tmp_path / "token").write_text(f"{DEFAULT_TOKEN}\n")
    more = ["--partitions", "2", "--token-file", str(tmp_path / "token")]
    assert cluster.text("topics", "alter", "views", *more) == "topic views was altered: 8 partitions on 2 brokers\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["show", "klicks"], 2, "[TOPIC_NOT_FOUND] the cluster has no topic klicks; did you mean clicks? `tubeclient"),
        (["show", "orders"], 2, "[TOPIC_NOT_FOUND] the cluster has no topic orders; `tubeclient topics list` shows"),
        (["create", "views"], 2, "give a file with --token-file, or set the environment variable TUBECLIENT_MODIFY"),
        (["create", "views", "--token-file", "/no/such"], 2, "cannot read /no/such"),
        (
            ["create", "x<b>", "--token-file", "/no/such"],
            2,
            "'x<b>' is not a valid name for a new topic: use 2 to 64 ASCII characters, a letter first, then",
        ),
        (["alter", "clicks"], 2, "nothing to change; give --stores or --partitions"),
        (["list", "--option", "sourceCount=3"], 2, "option sourceCount is not for the connection"),
        (["list", "--option", "masterWebPrt=3"], 2, "did you mean masterWebPort?"),
    ],
)
def test_what_is_wrong_is_one_line(cluster: ClusterCommands, words: list[str], code: int, said: str) -> None:
    assert said in cluster.error("topics", *words, code=code, env=NO_TOKEN)


def test_a_refusal_does_not_show_the_token(cluster: ClusterCommands) -> None:
    secret = "not-the-right-one"
    line = cluster.error("topics", "create", "views", env={"TUBECLIENT_MODIFY_TOKEN": secret})
    assert "[AUTHENTICATION_FAILED]" in line
    assert "the modify token must equal confModAuthToken" in line
    assert secret not in line
    told = cluster.error("topics", "create", "clicks", env=TOKEN)
    assert "topic clicks already exists; use `tubeclient topics alter` to change it" in told
    assert "and cannot shrink" in cluster.error("topics", "alter", "clicks", "--stores", "1", env=TOKEN)


def test_a_cluster_that_is_not_there_is_exit_code_3() -> None:
    nowhere = ClusterCommands(ClientSettings(("127.0.0.1:1",), master_web_port=1))
    said = "no master answered at its web port: http://127.0.0.1:1 did not answer: Connection refused; "
    assert nowhere.error("topics", "list", code=3).endswith(f"{said}check master_servers and master_web_port")


@pytest.mark.parametrize(
    "words", [("topics", "list"), ("topics", "show", "views"), ("groups", "list"), ("topics", "create", "new")]
)
def test_a_web_port_of_another_cluster_is_an_error(
    tube: EmbeddedTubeMQ, tmp_path: Path, words: tuple[str, ...]
) -> None:
    with EmbeddedTubeMQ(tmp_path / "other", [TopicConfig("views")]) as other:
        mixed = ClusterCommands(ClientSettings((tube.master_address,), master_web_port=other.master_web_port))
        line = mixed.error(*words, env=TOKEN)
        theirs, ours = min(other.broker_addresses.values()), min(tube.broker_addresses.values())
        assert "[OTHER_WEB_PORT] web port " in line
        assert (
            f"{other.master_web_port} lists {theirs}, but the masters list {ours}: the port belongs to another cluster"
        ) in line
        assert line.endswith("Set master_web_port to the web port of this cluster's masters")
        assert [topic.name for topic in Admin(mixed.settings).topics()] == ["views"]


def test_a_broker_that_is_slow_to_load_is_waited_for(
    tube: EmbeddedTubeMQ, cluster: ClusterCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    [before] = Admin(cluster.settings).topics(["clicks"])
    topics, late = Admin.topics, [before] * 2

    def slow(admin: Admin, names: Any = ()) -> Any:
        return [late.pop()] if late else topics(admin, names)

    monkeypatch.setattr(Admin, "topics", slow)
    assert "was altered: 16 partitions" in cluster.text("topics", "alter", "clicks", "--partitions", "4", env=TOKEN)
    late += [before] * 9
    monkeypatch.setattr("tubeclient_cli.topics._WAIT_SECONDS", 0.0)
    done = cluster.run("topics", "alter", "clicks", "--partitions", "5", env=TOKEN)
    assert (done.exit_code, "some brokers have not loaded it yet" in done.stdout) == (1, True), done.output


def test_only_what_is_named_is_altered(tube: EmbeddedTubeMQ) -> None:
    settings = ClientSettings((tube.master_address,), master_web_port=tube.master_web_port)
    admin = Admin(settings, modify_token=DEFAULT_TOKEN)
    admin.alter_topic("clicks", stores=3)
    [topic] = admin.topics(["clicks"])
    assert {(on.stores, on.partitions_per_store) for on in topic.on_brokers} == {(3, 3)}
    with pytest.raises(ConfigurationError, match="nothing to change in topic clicks"):
        admin.alter_topic("clicks")
    with pytest.raises(ConfigurationError, match=r"no such topic on this cluster: klicks"):
        admin.alter_topic("klicks", stores=3)
    with pytest.raises(RemoteError):
        admin.alter_topic("clicks", stores=1)
