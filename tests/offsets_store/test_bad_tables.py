"""Tables that cannot be written: what users are told, and that the table stays as it was."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from offsets_store import OffsetsTable, OffsetsTableError, SchemaMismatch
from tests.offsets_store.conftest import FIRST, KEY, SECOND, at


@pytest.mark.parametrize("offset", [29, -28, -1])
def test_foreign_values_are_refused(
    table: OffsetsTable, open_table: Callable[[], OffsetsTable], uri: str, offset: int
) -> None:
    """The table refuses values that no release writes, and opens again once they are deleted."""
    table.open_run(KEY, 1).record(at({FIRST: 28, SECOND: 56}))
    DeltaTable(uri).update(new_values={"nextOffset": offset}, predicate="partition = 0")
    for read in (
        lambda: open_table().positions(KEY.consumer_group, ["clicks"]),
        lambda: open_table().all_latest(KEY.consumer_group),
        lambda: open_table().open_run(KEY, 1, force=True),
    ):
        with pytest.raises(SchemaMismatch, match=rf"group 'clicks_etl', broker 1, .*nextOffset {offset}.*another tool"):
            read()
    DeltaTable(uri).delete("partition = 0")
    assert open_table().positions(KEY.consumer_group, KEY.topics) == {SECOND: 56}
    DeltaTable(uri).update(new_values={"readers": "[1]"}, predicate="partition = 10000")
    with pytest.raises(SchemaMismatch, match=r"partition 10000 has readers '\[1\]', which .*another tool wrote it"):
        open_table().all_latest(KEY.consumer_group)


@pytest.mark.parametrize("name", ["clicks[1]", "a^b", "a|b", "a%20b", "%41"])
def test_a_path_that_delta_rs_takes_wrongly_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(OffsetsTableError, match=r"delta-rs accepts no path with .*; name another folder"):
        OffsetsTable(str(tmp_path / name)).open_run(KEY, 1)
    assert not list(tmp_path.iterdir())


def _record_on_a_full_disk(uri: str) -> tuple[str, dict[str, int], int]:
    """What a run says that cannot write another byte; then the disk has room again."""
    run = OffsetsTable(uri).open_run(KEY, 1)
    run.record(at({FIRST: 28}))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The nearest thing to a full disk that needs no mount: a write beyond the limit fails, EFBIG instead of ENOSPC.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    with pytest.raises(OffsetsTableError) as caught:
        run.record(at({FIRST: 56}))
    found = {str(key): at for key, at in OffsetsTable(uri).positions("clicks_etl", ["clicks"]).items()}
    version = DeltaTable(uri).version()
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert run.record(at({FIRST: 84}))
    return str(caught.value), found, version


def test_a_full_disk(uri: str) -> None:
    text, found, version = _in_child(_record_on_a_full_disk, uri)
    assert text.startswith(f"could not write the offsets table at {uri}: ")
    assert "File too large" in text
    assert (found, version) == ({str(FIRST): 28}, 1)
    # Written again as soon as there is room, by the same run.
    assert OffsetsTable(uri).positions("clicks_etl", ["clicks"]) == {FIRST: 84}
    assert DeltaTable(uri).version() == 2


def _in_child(work: Callable[[str], Any], uri: str) -> Any:
    """What changes the process for good, in one of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as child:
        return child.submit(work, uri).result(100)
