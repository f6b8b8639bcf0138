"""The image of conf/docker: what its Dockerfile copies is there, and its own steps and commands run, without Docker.

What Debian brings in the image (Python, Java, tini), this machine has. The paths of the image are in a folder.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from deltalake import DeltaTable
from dockerfile_parse import DockerfileParser

from tests.distributions import ROOT, Distributions
from tests.empty_environment import EmptyEnvironment
from tests.test_install import requirements
from tests.test_packaging import PACKAGES
from tests.waiting import wait_for

FOLDER = ROOT / "conf" / "docker"
_SECONDS = 240.0
IMAGE_FOLDERS = ("/build", "/opt/tubeclient", "/wheels", "/data", "/work")


class Step(NamedTuple):
    """An instruction of the Dockerfile."""

    name: str
    value: str


def steps(folder: Path = FOLDER) -> list[Step]:
    """All instructions of the Dockerfile, in order."""
    parser = DockerfileParser(fileobj=io.BytesIO((folder / "Dockerfile").read_bytes()))
    return [Step(one["instruction"], one["value"]) for one in parser.structure if one["instruction"] != "COMMENT"]


def last_stage() -> list[Step]:
    """The instructions of the image itself."""
    found = steps()
    return found[max(at for at, step in enumerate(found) if step.name == "FROM") :]


def copied(instructions: list[Step]) -> list[tuple[str, str]]:
    """What comes from the repository: each path in it, and where it goes."""
    pairs = []
    for step in instructions:
        if step.name == "COPY" and not step.value.startswith("--from"):
            *paths, target = step.value.split()
            pairs += [(path, target) for path in paths]
    return pairs


def test_all_that_the_image_copies_is_in_the_source_archive_and_not_ignored(distributions: Distributions) -> None:
    with tarfile.open(distributions.sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    rules = [line for line in (FOLDER / "Dockerfile.dockerignore").read_text().splitlines() if line and line[0] != "#"]
    shown = [rule[1:] for rule in rules if rule.startswith("!")]
    paths = [path for path, _ in copied(steps())]
    assert set(PACKAGES) <= set(paths)
    for path in paths:
        assert path in held
        assert any(fnmatch(path, f"{rule}*") for rule in shown), f"Dockerfile.dockerignore hides {path}"


def test_the_image_runs_as_a_user_without_rights() -> None:
    users = [step.value for step in last_stage() if step.name == "USER"]
    [made] = [step.value for step in last_stage() if "useradd" in step.value]
    assert users == ["185"]
    assert "--uid 185 " in made


class Image:
    """The image in a folder: its files, its variables, and how a command starts in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = Path(self.real("/opt/tubeclient"))
        values = [
            word.partition("=") for step in last_stage() if step.name == "ENV" for word in shlex.split(step.value)
        ]
        own = {name: self.real(value) for name, _, value in values}
        tini = folder / "tini"
        tini.mkdir()
        (tini / "tini").write_text('#!/bin/sh\n[ "$1 $2" = "-s --" ] || exit 9\nshift 2\nexec "$@"\n')
        (tini / "tini").chmod(0o755)
        java = Path(shutil.which("java") or "java").parent
        path = os.pathsep.join([own["PATH"], str(tini), str(java)])
        self.environment = {**own, "PATH": path, "HOME": str(folder / "home"), "SPARK_LOCAL_IP": "127.0.0.1"}

    def real(self, text: str) -> str:
        """The text with this folder before the image's paths."""
        for name in IMAGE_FOLDERS:
            text = re.sub(rf"(?<![\w/.-]){name}\b", f"{self.folder}{name}", text)
        return text

    def command(self, *words: str) -> list[str]:
        """The words as the image starts them."""
        return [str(self.prefix / "entrypoint.sh"), *words]

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Start the words as the image does, and wait for their end."""
        return subprocess.run(
            self.command(*words),
            env={**self.environment, **variables},
            cwd=self.folder / "work",
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
        )


@contextmanager
def started(image: Image, command: list[str], is_ready: Callable[[str], bool]) -> Iterator[Path]:
    """A process of the image once its log says that it is ready; the log's file. It is ended in the end."""
    path = image.folder / f"{command[0]}-{command[1]}.log"
    with path.open("w") as log:
        process = subprocess.Popen(
            image.command(*command), env=image.environment, cwd=image.folder / "work", stdout=log, stderr=log
        )
        try:
            wait_for(lambda: is_ready(path.read_text()) or process.poll() is not None, command[1], seconds=90)
            assert process.poll() is None, path.read_text()
            yield path
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture(scope="module")
def image(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The Dockerfile's files and its own installation, without a network but for Delta's jars where Ivy lacks them."""
    folder = tmp_path_factory.mktemp("image")
    made = Image(folder)
    for name in ("build", "wheels", "data", "work", "home"):
        (folder / name).mkdir()
    shutil.copy(distributions.wheel, folder / "wheels")
    environment = EmptyEnvironment(made.prefix)
    environment.link(requirements(distributions.wheel, "quickstart", "speed") | {"pip"})
    own_copy(environment, "pyspark")
    for path, target in copied(last_stage()):
        Path(made.real(target)).mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, made.real(target))
    [line] = [step.value for step in last_stage() if step.name == "RUN" and "install.sh" in step.value]
    command, _, rest = line.partition(" && ")
    assert rest.startswith("rm -rf ")
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}
    variables["PIP_NO_INDEX"] = "1"
    done = subprocess.run(
        ["sh", "-c", made.real(command)], env=variables, check=False, capture_output=True, text=True, timeout=_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(folder / "build")
    return made


def own_copy(environment: EmptyEnvironment, package: str) -> None:
    """Give the environment a package's files of its own, by hard links: the installation adds to them."""
    [link] = environment.bin.parent.glob(f"lib/python3*/site-packages/{package}")
    source = link.resolve()
    link.unlink()
    shutil.copytree(source, link, copy_function=_linked, symlinks=True)


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def test_kubernetes_way_to_start_an_executor_is_understood(image: Image) -> None:
    """By Kubernetes' word and variables. Instead of Java a script says what it is told."""
    java = image.folder / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    java.chmod(0o755)
    told = {
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:7078",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_APPLICATION_ID": "app-1",
        "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
        "SPARK_EXECUTOR_POD_NAME": "pod",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_JAVA_OPT_0": "-Done=1",
    }
    done = image.run("executor", **told, JAVA_HOME=str(java.parents[1]))
    words = done.stdout.splitlines()
    assert words[:3] == ["-Done=1", "-Xms512m", "-Xmx512m"], done.stderr
    given = dict(zip(words[6::2], words[7::2], strict=True))
    assert words[5] == "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    assert given == {
        "--driver-url": told["SPARK_DRIVER_URL"],
        "--executor-id": "1",
        "--cores": "1",
        "--app-id": "app-1",
        "--hostname": "127.0.0.1",
        "--resourceProfileId": "0",
        "--podName": "pod",
    }


@pytest.mark.spark
def test_kubernetes_way_to_start_a_driver_has_the_settings_of_the_job(image: Image) -> None:
    job = image.folder / "work" / "driver.py"
    # It finds Delta's jars in the image, and fetches nothing.
    job.write_text(
        "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"
        'spark.range(2).write.format("delta").save("submitted")\n'
        'print(spark.conf.get("spark.redaction.regex"), spark.read.format("delta").load("submitted").count())\n'
    )
    done = image.run("driver", "--master", "local[1]", str(job), SPARK_DRIVER_BIND_ADDRESS="127.0.0.1")
    assert done.stdout.endswith("storageoption 2\n"), done.stderr


# The two services of compose.yaml


def service(name: str) -> dict[str, Any]:
    found = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
    assert found["services"].keys() == {"tubemq", "ingest"}
    assert (FOLDER / found["x-image"]["build"]["context"]).resolve() == ROOT
    assert (ROOT / found["x-image"]["build"]["dockerfile"]).is_file()
    assert set(found["volumes"]) == {volume.partition(":")[0] for volume in found["x-image"]["volumes"]}
    one: dict[str, Any] = found["services"][name]
    return one


@pytest.mark.spark
def test_the_services_of_the_compose_file_fill_a_table(image: Image) -> None:
    server, ingest = service("tubemq"), service("ingest")
    ready = image.folder / "ready.json"
    line = image.real(server["command"]).replace("--host tubemq", "--host localhost")
    # Free ports: the usual ones may be taken here.
    line = re.sub(r"(--master(?:-web)?-port) \d+", r"\1 0", line) + f" --ready-file {ready}"
    with started(image, shlex.split(line), lambda _: ready.exists()):
        addresses = json.loads(ready.read_text())
        master, web = addresses["master"], str(addresses["masterWebPort"])
        kind, *words = server["healthcheck"]["test"]
        assert kind == "CMD"
        healthy = image.run(
            *[word.replace("tubemq:8715", master) for word in words], "--option", f"masterWebPort={web}"
        )
        assert "clicks" in healthy.stdout, healthy.stderr
        line = image.real(ingest["command"]).replace("tubemq:8715", master).replace("--trigger 10s", "")
        done = image.run(*shlex.split(line), "--option", f"masterWebPort={web}")
        assert done.returncode == 0, done.stderr
    [target] = re.findall(r"--target (\S+)", line)
    assert len(DeltaTable(target).to_pyarrow_table()) == 1_000
