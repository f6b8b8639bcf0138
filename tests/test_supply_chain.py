"""What is installed is known: the lock file goes with setup.py, and the page of licences with the lock file."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.crates import CORE
from tools.dependencies import LOCK, locked
from tools.licences_page import for_users

ROOT = Path(__file__).resolve().parents[1]
LICENCES = ROOT / "docs" / "licences.md"


def required(monkeypatch: pytest.MonkeyPatch) -> list[Requirement]:
    """What setup.py asks for, with all its extras."""
    monkeypatch.setattr("setuptools.setup", lambda **_: None)
    names = runpy.run_path(str(ROOT / "setup.py"))
    texts = [*names["CORE"], *(text for extra in names["EXTRAS"].values() for text in extra)]
    return [Requirement(text) for text in texts]


def test_lock_file_matches_setup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run make lock after a change of setup.py."""
    versions = locked()
    for requirement in required(monkeypatch):
        name = canonicalize_name(requirement.name)
        assert name in versions
        assert versions[name] in requirement.specifier, requirement


def test_locked_packages_have_hashes() -> None:
    """Each locked package has hashes and no download address."""
    text = LOCK.read_text(encoding="utf-8")
    entries = re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]
    assert len(entries) >= len(locked())
    for entry in entries:
        assert re.fullmatch(r"[\w.-]+==[^\s;]+( ; [^\\\n]+)? \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+", entry), (
            entry
        )


def listed() -> tuple[set[str], set[str]]:
    """The packages and the crates of the page."""
    packages, crates = LICENCES.read_text(encoding="utf-8").split("\n## ")
    names = re.compile(r"^\| ([\w-]+) \| .* \|$", re.MULTILINE)
    return set(names.findall(packages)) - {"package"}, set(names.findall(crates)) - {"crate"}


def test_license_page_lists_packages() -> None:
    """The license page lists each package that users install."""
    assert listed()[0] == for_users(), "run make lock"


def test_license_page_lists_crates() -> None:
    """Which are linked only cargo knows, with the crates at hand."""
    locked_crates = tomllib.loads((CORE / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    asked_for = tomllib.loads((CORE / "Cargo.toml").read_text(encoding="utf-8"))["dependencies"]
    assert asked_for.keys() <= listed()[1] <= {crate["name"] for crate in locked_crates}, "run make lock"


def test_the_locked_crates_are_the_public_registrys() -> None:
    sources = re.findall(r"^source = .*$", (CORE / "Cargo.lock").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(sources) == {'source = "registry+https://github.com/rust-lang/crates.io-index"'}


def test_nothing_that_users_install_forbids_their_use() -> None:
    assert not re.findall(r"^.*(?:GPL|GNU|not said).*$", LICENCES.read_text(encoding="utf-8"), re.MULTILINE)
