"""Fetches sets of jars with the Ivy inside pip's pyspark. Needs only Python, a JDK and the registry.

A set is a list of artifacts with exact versions. It has its own folder below `.cache/` at the repository's root. The
jars are in a sub-folder named by a hash of the list, so a changed list is fetched again, and an incomplete fetch never
counts as complete. There is no registry address here: Ivy uses its default for an `ibiblio` resolver with Maven's
layout.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import quoteattr

__all__ = ["Artifact", "JarSet", "JarsError", "java_executable", "parse_artifacts", "pyspark_jar"]

_CACHE_FOLDER: Final = Path(__file__).resolve().parents[1] / ".cache"
_COMPLETE: Final = "COMPLETE"
# Seconds. A first fetch of 59 jars (29 MB) took 15 s; a slow line may take minutes.
_FETCH_TIMEOUT: Final = 540.0

_SETTINGS: Final = """<ivysettings>
  <settings defaultResolver="registry"/>
  <resolvers><ibiblio name="registry" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""


class Artifact(NamedTuple):
    """One jar on a Maven-style registry; with a classifier, one that stands beside the main one."""

    group: str
    name: str
    version: str
    classifier: str = ""

    @property
    def file_name(self) -> str:
        return "-".join(filter(None, (self.name, self.version, self.classifier))) + ".jar"

    def __str__(self) -> str:
        return ":".join(filter(None, self))


def parse_artifacts(listing: str) -> tuple[Artifact, ...]:
    """The artifacts of a text with one `group:name:version` or `group:name:version:classifier` per line."""
    return tuple(Artifact(*line.split(":")) for line in listing.split())


class JarsError(RuntimeError):
    """The jars could not be fetched; the message names them and has Ivy's output."""


def java_executable() -> str:
    """The `java` of JAVA_HOME, otherwise of PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found is None:
        raise JarsError("no java on PATH and none in JAVA_HOME: Apache's servers need a JDK (tested with 17)")
    return found


def pyspark_jar(prefix: str) -> Path:
    """The one jar of the installed pyspark whose name is `prefix-<version>.jar`."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JarsError("pyspark is not installed in this Python: its jars folder holds Ivy and py4j")
    folder = Path(next(iter(spec.submodule_search_locations))) / "jars"
    pattern = re.compile(re.escape(prefix) + r"-\d[\w.]*\.jar")
    found = sorted(path for path in folder.glob(f"{prefix}-*.jar") if pattern.fullmatch(path.name))
    if len(found) != 1:
        raise JarsError(f"expected one {prefix} jar in pyspark's jars folder, found {[p.name for p in found]}")
    return found[0]


def _is_complete(folder: Path, artifacts: Sequence[Artifact]) -> bool:
    return (folder / _COMPLETE).is_file() and all((folder / a.file_name).is_file() for a in artifacts)


def _ivy_module(artifacts: Sequence[Artifact]) -> str:
    # Of two dependencies on one module Ivy takes one, so its jars are artifacts of one dependency.
    jars: dict[Artifact, str] = {}
    for a in artifacts:
        classifier = f" m:classifier={quoteattr(a.classifier)}" if a.classifier else ""
        module = a._replace(classifier="")
        jars[module] = f'{jars.get(module, "")}<artifact name={quoteattr(a.name)} type="jar"{classifier}/>'
    dependencies = "\n".join(
        f"    <dependency org={quoteattr(a.group)} name={quoteattr(a.name)} rev={quoteattr(a.version)}"
        f' transitive="false" conf="default->default">{own}</dependency>'
        for a, own in jars.items()
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">\n'
        '  <info organisation="jars" module="set"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{dependencies}\n  </dependencies>\n</ivy-module>\n"
    )


def _run_ivy(work: Path, folder: Path, artifacts: Sequence[Artifact]) -> None:
    """Run Ivy once. Raises JarsError that names every artifact missing from `folder` afterwards."""
    (work / "settings.xml").write_text(_SETTINGS)
    (work / "ivy.xml").write_text(_ivy_module(artifacts))
    command = [java_executable(), "-Xmx256m", "-cp", str(pyspark_jar("ivy")), "org.apache.ivy.Main"]
    command += ["-settings", str(work / "settings.xml"), "-ivy", str(work / "ivy.xml")]
    # Keep Ivy's cache in this repository, not in the user's home folder.
    command += [
        "-cache",
        str(work / "ivy-cache"),
        "-retrieve",
        str(folder / "[artifact]-[revision](-[classifier]).[ext]"),
    ]
    log = work / "ivy.log"
    with log.open("w") as output:
        try:
            done = subprocess.run(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=_FETCH_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            text = f"Ivy did not finish within {_FETCH_TIMEOUT:.0f} s; its last output:\n{_tail(log)}"
            raise JarsError(text) from None
    missing = [str(artifact) for artifact in artifacts if not (folder / artifact.file_name).is_file()]
    if missing or done.returncode != 0:
        raise JarsError(f"could not fetch {', '.join(missing) or 'all jars'}; Ivy's last output:\n{_tail(log)}")


def _tail(path: Path, lines: int = 25) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


class JarSet:
    """The jars of `artifacts`, kept in `.cache/<name>/`."""

    def __init__(self, name: str, artifacts: Sequence[Artifact]) -> None:
        self.name = name
        self.artifacts = tuple(artifacts)
        self._cache = _CACHE_FOLDER / name

    @property
    def folder(self) -> Path:
        """The folder of the jars; its name has twelve hexadecimal digits that change with the list."""
        return self._cache / hashlib.sha256("\n".join(map(str, self.artifacts)).encode()).hexdigest()[:12]

    def ensure(self) -> Path:
        """The folder with all jars; fetches missing ones. Takes up to ten minutes; safe to call from many processes.

        Raises JarsError if they cannot be fetched.
        """
        folder = self.folder
        if _is_complete(folder, self.artifacts):
            return folder
        self._cache.mkdir(parents=True, exist_ok=True)
        with (self._cache / "lock").open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)  # another process may be fetching; the kernel frees it if that dies
            if _is_complete(folder, self.artifacts):
                return folder
            # Into a new folder, renamed at the end: Ivy would keep a partial jar of a killed run.
            partial = folder.with_name(folder.name + ".partial")
            for leftover in (partial, folder):
                shutil.rmtree(leftover, ignore_errors=True)
            partial.mkdir()
            _run_ivy(self._cache, partial, self.artifacts)
            (partial / _COMPLETE).write_text("\n".join(map(str, self.artifacts)) + "\n")
            partial.rename(folder)
        return folder

    def files(self) -> list[Path]:
        """The jars' absolute paths, in the order of the list; fetches missing jars."""
        folder = self.ensure()
        return [folder / artifact.file_name for artifact in self.artifacts]

    def class_path(self) -> str:
        """A Java class path of all the jars, in the order of the list."""
        return os.pathsep.join(map(str, self.files()))

    def report(self) -> int:
        """Fetch missing jars and print a summary; returns the exit code for a command."""
        started = time.monotonic()
        try:
            folder = self.ensure()
        except JarsError as error:
            print(f"jars: {error}", file=sys.stderr)
            return 1
        size = sum(path.stat().st_size for path in folder.glob("*.jar"))
        seconds = time.monotonic() - started
        print(f"{self.name}: {len(self.artifacts)} jars, {size / 1e6:.1f} MB, {seconds:.1f} s, in {folder}")
        return 0
