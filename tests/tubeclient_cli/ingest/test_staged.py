"""Which staged folders nobody will publish."""

from __future__ import annotations

from tubeclient_cli.ingest.staged import folder_name, numbers, orphans, owner_mark

OWN, BY_PATH = owner_mark("g", "id-1"), owner_mark("g", "/lake/t")


def test_folders_up_to_the_newest_commit_are_left_over() -> None:
    names = [folder_name(OWN, sequence, "x") for sequence in (1, 9, 10, 11)]
    assert orphans(names, [OWN], 10) == names[:3]
    assert numbers(names, [OWN]) == dict(zip(names, (1, 9, 10, 11), strict=True))


def test_a_run_before_the_first_commit_marks_by_path() -> None:
    names = [folder_name(BY_PATH, 1, "x"), folder_name(OWN, 1, "y")]
    assert orphans(names, [OWN, BY_PATH], 1) == names


def test_others_folders_stay() -> None:
    marks = [owner_mark("h", "id-1"), owner_mark("g", "id-2"), owner_mark("gi", "d-1")]
    names = [*(folder_name(mark, 1, "x") for mark in marks), f"{OWN}", f"{OWN}-x-1", "by hand", "-1-x"]
    assert orphans(names, [OWN], 99) == []
