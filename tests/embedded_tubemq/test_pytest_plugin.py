"""The fixtures for pytest, in small projects that run in a pytest of their own. tests/test_install.py installs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run_project(
    folder: Path, tests: str, *arguments: str, ini: Sequence[str] = (), conftest: str = ""
) -> tuple[int, str]:
    """Run a project of one file with the plugin and with warnings as errors; its exit status, and what pytest said.

    The shared environment may or may not have the entry point, so the plugin is named and no other is loaded.
    """
    (folder / "test_project.py").write_text(tests)
    (folder / "conftest.py").write_text(conftest)
    (folder / "pytest.ini").write_text("\n".join(["[pytest]", "filterwarnings = error", *ini]))
    options = ["-p", "embedded_tubemq.pytest_plugin", "-p", "no:cacheprovider", "-ra", "--strict-markers"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *arguments],
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout


def test_each_test_has_a_topic_of_its_own(tmp_path: Path) -> None:
    status, said = run_project(
        tmp_path,
        """
import re
import pytest

seen = []

@pytest.mark.parametrize("place", ["West/7 b", "a" * 99])
def test_orders(place, tubemq_topic):
    assert re.fullmatch(r"test_orders_(West_7_b|a{36})_[12]", tubemq_topic.name)
    assert tubemq_topic.read() == []
    tubemq_topic.send(b"one", tag="eu", time="202611211031", attributes={"k": "v"})
    tubemq_topic.send(b"two")
    one, two = tubemq_topic.read(2)
    assert (one.body, one.tag, one.time, one.attributes, two.body) == (b"one", "eu", "202611211031", {"k": "v"}, b"two")
    seen.append(tubemq_topic.name)

@pytest.mark.tubemq_topic(stores=2, partitions=2)
def test_the_topic_of_a_marker(tubemq, tubemq_topic):
    with pytest.raises(Exception, match="no store"):
        tubemq.bounds(seen[0])  # deleted after its test
    sent = tubemq_topic.send(*(b"%d" % number for number in range(500)))
    assert len({result.partition for result in sent}) == 4
    assert sorted(int(message.body) for message in tubemq_topic.read(500)) == list(range(500))
    tubemq.delete_topic(tubemq_topic.name)
""",
    )
    assert status == 0, said
    assert "3 passed" in said


def test_a_topic_with_too_few_messages_fails_its_test_in_one_line(tmp_path: Path) -> None:
    status, said = run_project(
        tmp_path,
        "def test_few(tubemq_topic):\n    tubemq_topic.send(b'one')\n    tubemq_topic.read(2, timeout_seconds=0)",
    )
    assert status == 1, said
    assert "Failed: topic test_few_1 has 1 messages after 0 s, and 2 are wanted" in said
    assert "pytest_plugin.py" not in said


def test_the_examples_of_the_page_pass(tmp_path: Path) -> None:
    """Those with Spark are in tests/test_install.py."""
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8").partition("## With Spark")[0]
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", page, re.DOTALL)
    assert [name for name, _ in blocks] == ["test_orders.py", "test_stores.py", "conftest.py"]
    [ini] = re.findall(r"```ini\n\[pytest\]\n(.*?)```", page, re.DOTALL)
    tests = "".join(code for name, code in blocks if name != "conftest.py")
    plain = run_project(tmp_path, tests + "def test_topics(tubemq): tubemq.bounds('clicks', store_id=1)", ini=[ini])
    assert plain[0] == 0, plain[1]
    status, said = run_project(tmp_path, tests, conftest=dict(blocks)["conftest.py"])
    assert status == 0, said


CLUSTER = "def test_it(tubemq):\n    print(tubemq.broker_ids, tubemq.bounds('clicks', store_id=1, broker_id=2))"


def test_options_say_what_the_cluster_is_like(tmp_path: Path) -> None:
    ini = ["tubemq_brokers = 3", "tubemq_topics = clicks:2:4\n  orders"]
    assert "[1, 2, 3] StoreBounds" in run_project(tmp_path, CLUSTER, "-s", ini=ini)[1]
    assert "[1, 2] StoreBounds" in run_project(tmp_path, CLUSTER, "-s", "--tubemq-brokers", "2", ini=ini)[1]


def test_a_fixture_says_what_the_cluster_is_like(tmp_path: Path) -> None:
    status, said = run_project(
        tmp_path,
        """
import dataclasses, pytest
from tubeclient import Credentials, Producer, TubeError

def test_a_user_is_needed(tubemq_topic, tubemq_settings):
    tubemq_topic.send(b"one")
    assert len(tubemq_topic.read(1)) == 1
    assert tubemq_settings.credentials.user == "alice"
    wrong = dataclasses.replace(tubemq_settings, credentials=Credentials("alice", password="wrong"))
    with Producer(wrong) as producer, pytest.raises(TubeError):
        producer.publish([tubemq_topic.name])
""",
        conftest="""
import pytest

@pytest.fixture(scope="session")
def tubemq_config():
    return {"brokers": 2, "users": {"alice": "secret"}, "check_visit_token": True}
""",
    )
    assert status == 0, said


@pytest.mark.parametrize(
    ("ini", "lines"),
    [
        ("tubemq_brokers = none", ["ERROR: tubemq_brokers, or --tubemq-brokers, is 'none'; write a number"]),
        ("tubemq_topics = a:b", ["'a:b' is not a topic; write name:stores:partitions"]),
        ("", ["@pytest.mark.tubemq_topic: ", "TopicConfig.__init__() got an unexpected keyword argument 'parts'"]),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, ini: str, lines: list[str]) -> None:
    status, said = run_project(tmp_path, MARKERS, ini=[ini])
    assert status != 0
    for line in lines:
        assert line in said, said
    assert "Traceback" not in said
    assert "During handling" not in said


MARKERS = """
import pytest

@pytest.mark.tubemq_topic(parts=4)
def test_one(tubemq_topic): pass
"""


LIGHT = """
import sys

def test_it():
    assert not {"aiohttp", "numpy", "google", "asyncio", "ssl"} & set(sys.modules)
"""


def test_a_project_that_does_not_use_it_loads_nothing(tmp_path: Path) -> None:
    status, said = run_project(tmp_path, LIGHT)
    assert status == 0, said


def test_without_the_extra_only_tests_that_use_it_fail(tmp_path: Path) -> None:
    status, said = run_project(
        tmp_path,
        "def test_other(): pass\n\n"
        + "".join(f"def test_{name}({name}): pass\n" for name in ("tubemq_config", "tubemq", "tubemq_topic")),
        conftest="""
import sys
sys.modules["aiohttp"] = None
""",
    )
    assert "1 passed, 3 errors" in said
    assert status == 1
    line = "[PACKAGE_MISSING] the package aiohttp is missing; pip install 'pyspark-tubeclient[embedded]' brings it"
    assert said.splitlines().count(line) == 3
