"""Options for user and TLS: what goes where, what fits together, what this machine has; and no password anywhere."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from pyspark_tubeclient import DefaultSource
from spark_source.options.access import client_settings
from spark_source.options.given import parse_options
from spark_source.options.source_options import SourceOptions
from tubeclient import Credentials, TlsSettings
from tubeclient.errors import ConfigurationError

SECRET = " hunter2 hunter2 "
LEAST = {"masterservers": "a, b:9000", "consumergroup": "g", "subscribe": "t"}


def parse(**more: str) -> SourceOptions:
    return parse_options({**LEAST, **{name.replace("__", "."): value for name, value in more.items()}})


def test_password_file_is_passed_as_a_path(tmp_path: Path) -> None:
    """Client and tasks get the path of the password file, not the password in it."""
    file = tmp_path / "password"
    file.write_text(SECRET)
    options = parse(authuser="alice", authpasswordfile=str(file))
    settings = client_settings(options)
    assert settings.credentials == Credentials("alice", password_file=str(file))
    for sent in (options, options.for_tasks(), settings):
        assert SECRET.encode() not in pickle.dumps(sent)


def test_tls_options_are_the_clients(tmp_path: Path) -> None:
    for name in ("ca", "own", "key"):
        (tmp_path / name).touch()
    ca, own, key = (str(tmp_path / name) for name in ("ca", "own", "key"))
    options = parse(tls__cafile=ca, tls__certificatefile=own, tls__keyfile=key, tls__checkhostname="false")
    settings = client_settings(options)
    assert settings.tls == TlsSettings(ca, own, key, check_hostname=False)
    assert settings.master_servers == ("a:8716", "b:9000")


def test_tls_can_be_turned_on_alone_and_off_again() -> None:
    assert client_settings(parse(tls__enabled="true")).tls == TlsSettings()
    assert client_settings(parse(tls__enabled="false", tls__cafile="/nowhere")).tls is None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"authuser": "a b", "authpassword": SECRET}, "option authUser is 'a b'; a user's name has no blanks"),
        ({"authuser": "alice"}, "authUser is given without a password; add one of authPassword, authPasswordFile"),
        ({"authpassword": SECRET}, "authPassword is given without authUser"),
        (
            {"authuser": "alice", "authpassword": SECRET, "authpasswordfile": "/x"},
            "authPassword and authPasswordFile exclude each other; give only one of them",
        ),
        ({"authuser": "alice", "authpassword": ""}, "option authPassword has an invalid value"),
        ({"tls__keyfile": "/x"}, "tls.keyFile is given without tls.certificateFile"),
        ({"tls__enabled": "yes"}, "option tls.enabled is 'yes'; write true or false"),
        ({"tls__cafil": "/x"}, r"option tls.cafil is unknown; did you mean tls.caFile\?"),
    ],
)
def test_what_does_not_fit_together_is_refused(more: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        parse(**more)
    assert SECRET.strip() not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"authuser": "a", "authpasswordfile": "/no/file"}, "authPasswordFile names /no/file, which cannot be read"),
        ({"tls.cafile": "/no/ca"}, r"tls.caFile names /no/ca, .*\(No such file or directory\).* every executor's"),
    ],
)
def test_files_missing_on_this_machine(more: dict[str, str], message: str) -> None:
    """Both load and the tasks refuse an option whose file is missing on their machine."""
    with pytest.raises(ConfigurationError, match=message):
        DefaultSource({**LEAST, **more}).schema()  # load asks for it
    with pytest.raises(ConfigurationError, match=message):
        client_settings(parse_options({**LEAST, **more}).for_tasks())


def test_password_option_is_not_shown() -> None:
    """A password option shows in no repr and reaches the client's credentials."""
    options = parse(authuser="alice", authpassword=SECRET, tls__certificatefile="/x")
    assert SECRET not in repr(options)
    assert "alice" in repr(options)
    assert client_settings(parse(authuser="alice", authpassword=SECRET).for_tasks()).credentials == Credentials(
        "alice", password=SECRET
    )
    source = DefaultSource({**LEAST, "authuser": "alice", "authpassword": SECRET})
    for shown in (source, vars(source), source.reader(source.schema()), vars(source.reader(source.schema()))):
        assert SECRET not in repr(shown)
