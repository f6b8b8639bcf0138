"""The table of options: every field of the classes is in it, documented, under a name of its own."""

from __future__ import annotations

import pickle

import pytest

from spark_source.options.given import OPTIONS, find_option, parse_given
from spark_source.options.option import Option
from spark_source.options.source_options import SourceOptions


def test_names_are_unique_and_options_documented() -> None:
    names = [option.name.lower() for option in OPTIONS]
    assert len(set(names)) == len(names)
    assert all(option.doc.endswith(".") for option in OPTIONS)
    assert find_option("STORAGEOPTION.a.b") is find_option("storageOption.x") is not None


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_docs_name_every_word(option: Option) -> None:
    """An option that takes one of some words says so when it is given another."""
    try:
        option.parse("?")
    except ValueError as error:
        words = str(error).partition("; write one of ")[2].removesuffix(", or package.module:function of your own")
        for word in filter(None, words.split(", ")):
            assert f"`{word}`" in option.doc + option.default


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.secret], ids=lambda option: option.name)
def test_no_secret_is_shown(option: Option) -> None:
    needed = {"masterServers": "m", "consumerGroup": "g", "subscribe": "t"}
    needed |= {"authUser": "me"} if option.name == "authPassword" else {"offsetsTable": "./o"}
    given = parse_given({**needed, option.name.replace("*", "x"): "hunter2"})
    options = given.of(SourceOptions)
    assert b"hunter2" in pickle.dumps(options)
    assert "hunter2" not in repr((given, options))
