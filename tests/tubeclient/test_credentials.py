"""The password: one source, read when it is needed, and never seen."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tubeclient import ClientSettings, ConfigurationError, Credentials

SECRET = "s3cret-hörse"


def test_exactly_one_source_is_given() -> None:
    with pytest.raises(ConfigurationError, match="no password for user alice"):
        Credentials("alice")
    with pytest.raises(ConfigurationError, match="password and password_env exclude each other") as caught:
        Credentials("alice", password=SECRET, password_env="TUBEMQ_PASSWORD")
    assert SECRET not in str(caught.value)
    with pytest.raises(ConfigurationError, match="password_file is empty"):
        Credentials("alice", password_file="")
    with pytest.raises(ConfigurationError, match="user"):
        Credentials("al ice", password=SECRET)


def test_a_file_is_read_when_the_password_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "password"
    credentials = Credentials("alice", password_file=str(file))
    with pytest.raises(ConfigurationError, match=r"cannot read .*password, named by password_file: No such file"):
        credentials.read_password()
    for content in (SECRET, f"{SECRET}\r\n", f"\ufeff{SECRET}"):
        file.write_bytes(content.encode())
        assert credentials.read_password() == SECRET
    file.write_text("\n")
    with pytest.raises(ConfigurationError, match="is empty"):
        credentials.read_password()
    file.write_bytes(b"secret\xff")
    with pytest.raises(ConfigurationError, match="not UTF-8") as caught:
        credentials.read_password()
    assert caught.value.__context__ is None  # Python's own error holds the content


def test_variable_is_read_when_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment variable is read when the password is needed and not before."""
    credentials = Credentials("alice", password_env="TUBEMQ_PASSWORD")
    monkeypatch.delenv("TUBEMQ_PASSWORD", raising=False)
    with pytest.raises(ConfigurationError, match="that password_env names is not set or empty") as caught:
        credentials.read_password()
    assert "TUBEMQ_PASSWORD" not in str(caught.value)  # somebody may give the password as the name
    monkeypatch.setenv("TUBEMQ_PASSWORD", SECRET)
    assert credentials.read_password() == SECRET


def test_the_password_is_not_printed() -> None:
    credentials = Credentials("alice", password=SECRET)
    settings = ClientSettings(("a:1",), credentials=credentials)
    assert "alice" in repr(settings)
    for text in (repr(credentials), str(credentials), repr(settings), str(settings), f"{settings}"):
        assert SECRET not in text


def test_pickle_without_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickle has no password if the password comes from a file or a variable."""
    file = tmp_path / "password"
    file.write_text(SECRET)
    monkeypatch.setenv("TUBEMQ_PASSWORD", SECRET)
    for credentials in (
        Credentials("alice", password_file=str(file)),
        Credentials("alice", password_env="TUBEMQ_PASSWORD"),
    ):
        assert credentials.read_password() == SECRET
        pickled = pickle.dumps(ClientSettings(("a:1",), credentials=credentials))
        assert SECRET.encode() not in pickled
        assert pickle.loads(pickled).credentials.read_password() == SECRET


def test_user_or_password_not_utf_8(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python has such bytes of a variable as lone surrogates, and its own error about them holds the whole text."""
    foreign = b"s3cret-h\xf6rse".decode("utf-8", "surrogateescape")
    monkeypatch.setenv("TUBEMQ_PASSWORD", foreign)
    for credentials, said in (
        (Credentials("alice", password_env="TUBEMQ_PASSWORD"), "variable that password_env names is not UTF-8 text"),
        (Credentials("alice", password=foreign), "password is not UTF-8 text"),
    ):
        with pytest.raises(ConfigurationError, match=said) as caught:
            credentials.read_password()
        error: BaseException | None = caught.value
        while error is not None:
            assert "s3cret" not in repr(error)
            error = error.__cause__ or error.__context__
    with pytest.raises(ConfigurationError, match="is not UTF-8 text"):
        Credentials("alic\udce9", password=SECRET)
