"""The offsets table in an object store: a real S3 server, its options, its fences, and how slow it may be."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pytest
from deltalake import DeltaTable

from offsets_store import OffsetsRun, OffsetsTable, OffsetsTableError
from tests.offsets_store.conftest import FIRST, KEY, SECOND, at
from tests.offsets_store.s3_server import BUCKET, S3Server, s3_server

URI = f"s3://{BUCKET}/offsets"
# Short limits of the user's, which go before ours.
IMPATIENT = {"timeout": "1s", "max_retries": "1", "retry_timeout": "3s"}


@pytest.fixture
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


def test_a_table_is_made_written_read_and_kept_up(server: S3Server) -> None:
    run = OffsetsTable(URI, server.options).open_run(KEY, 2)
    for step in range(1, 4):
        assert run.record(at({FIRST: 28 * step, SECOND: 28})) is True
    assert run.record(at({FIRST: 84, SECOND: 28})) is False
    anew = OffsetsTable(URI, server.options)
    assert anew.positions("clicks_etl", ["clicks"]) == {FIRST: 84, SECOND: 28}
    assert DeltaTable(URI, storage_options=server.options).version() == 3
    # Each commit is put on condition that nobody else's is there.
    commits = [path for path in server.conditional_puts if path.endswith(".json")]
    assert commits == [f"/{BUCKET}/offsets/_delta_log/{version:020}.json" for version in range(4)]
    assert anew.maintain(retention_hours=0) == 2
    assert run.record(at({FIRST: 112, SECOND: 28})) is True
    assert anew.positions("clicks_etl", ["clicks"]) == {FIRST: 112, SECOND: 28}


def test_store_without_an_answer(server: S3Server) -> None:
    """A store that does not answer is an error after a limited time and shows no secret."""
    options = {**server.options, **IMPATIENT}
    run = OffsetsTable(URI, options).open_run(KEY, 1)
    run.record(at({FIRST: 28}))
    server.late = lambda method, path: True
    for call in (lambda: run.record(at({FIRST: 56})), lambda: OffsetsTable(URI, options).latest(KEY)):
        with pytest.raises(OffsetsTableError, match=f"could not read the offsets table at {URI}: ") as caught:
            call()
        text = "".join(traceback.format_exception(caught.value))
        masked = ("the-access-key-id", "the-secret-access-key")
        assert [option for option in masked if option in text] == []
        assert server.endpoint in str(caught.value)
    server.answer_late()
    assert run.record(at({FIRST: 56})) is True


class Once:
    """True for the first commit entry of version 2 that is put."""

    def __init__(self) -> None:
        self.met = 0

    def __call__(self, method: str, path: str) -> bool:
        found = method == "PUT" and path.endswith(f"{2:020}.json")
        self.met += found
        return found and self.met == 1


def test_answer_after_the_timeout(server: S3Server) -> None:
    """The next try finds a commit whose answer came too late."""
    run = OffsetsTable(URI, {**server.options, **IMPATIENT}).open_run(KEY, 1)
    run.record(at({FIRST: 28}))
    server.late = Once()
    with pytest.raises(OffsetsTableError, match="could not write the offsets table"):
        run.record(at({FIRST: 56}))
    assert run.record(at({FIRST: 56})) is False
    _goes_on(run, server)


def test_resent_commit(server: S3Server) -> None:
    """A gateway says that it failed, the client tries again, and finds the version taken: by nobody but itself."""
    run = OffsetsTable(URI, server.options).open_run(KEY, 1)
    run.record(at({FIRST: 28}))
    server.broken = once = Once()
    assert run.record(at({FIRST: 56})) is True
    assert once.met == 2
    _goes_on(run, server)


def _goes_on(run: OffsetsRun, server: S3Server) -> None:
    assert run.record(at({FIRST: 84})) is True
    found = OffsetsTable(URI, server.options).latest(KEY)
    assert found is not None
    assert (found.positions, found.sequence) == ({FIRST: 84}, 3)
    assert DeltaTable(URI, storage_options=server.options).version() == 3
