"""Releases of PostgreSQL that no package here brings, from Maven Central, where they are for tests of Java programs.
Its JDBC driver, too.

Fetched once by `mvn` into the user's cache folder; where they cannot be had, tests say so and are skipped.
"""

import platform
import shutil
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

from tests.clients.brokers.maven import DOWNLOAD_SECONDS_MAX, alone, cache_folder
from tests.clients.brokers.process import NotAvailable

RELEASES = {"14": "14.18.0", "17": "17.5.0"}
GROUP = "io.zonky.test.postgres"
JDBC_VERSION = "42.7.7"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64v8"}
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


def unpacked(release: str, folder: Path) -> Path:
    """The folder of its programs, below one that every user may read; NotAvailable."""
    with ZipFile(_jar(release)) as jar:
        name = next(name for name in jar.namelist() if name.endswith(".txz"))
        with tarfile.open(fileobj=BytesIO(jar.read(name)), mode="r:xz") as archive:
            archive.extractall(folder, filter="data")
    return folder / "bin"


def _jar(release: str) -> Path:
    if release not in RELEASES or platform.machine() not in MACHINES:
        raise NotAvailable(f"There is no PostgreSQL {release} for {platform.machine()} here.")
    return _fetched(GROUP, f"embedded-postgres-binaries-linux-{MACHINES[platform.machine()]}", RELEASES[release])


def jdbc_driver() -> Path:
    """Its jar; NotAvailable."""
    return _fetched("org.postgresql", "postgresql", JDBC_VERSION)


def _fetched(group: str, name: str, version: str) -> Path:
    target = cache_folder() / f"{name}-{version}.jar"
    with alone(target.name):
        if not target.exists():
            _fetch(f"{group}:{name}:{version}", target)
    return target


def _fetch(artifact: str, target: Path) -> None:
    maven, work = shutil.which("mvn"), target.with_suffix(".part")
    if maven is None:
        raise NotAvailable(f"mvn is not installed, so that {artifact} cannot be fetched from Maven Central.")
    command = [maven, "-q", "-B", COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={work}"]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=DOWNLOAD_SECONDS_MAX, check=False, cwd=target.parent
        )
    except subprocess.TimeoutExpired:
        raise NotAvailable(f"Maven Central did not give {artifact} within {DOWNLOAD_SECONDS_MAX} s.") from None
    if done.returncode != 0:
        raise NotAvailable(f"{artifact} could not be fetched from Maven Central.")
    (work / target.name).rename(target)
    shutil.rmtree(work)
