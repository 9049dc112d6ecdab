"""Apache Kafka's jars from Maven Central, fetched once by `mvn` into the user's cache folder.

They are the oracle (the broker), a peer (the Java client) and a reader of our files (the dump tool). Nothing of them
is kept in the repository; where they cannot be had, tests and benchmarks that need them say so and are skipped.
"""

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.clients.brokers.process import NotAvailable

KAFKA_VERSION = "4.3.1"
JAVA_VERSION_MIN = 17
DOWNLOAD_SECONDS_MAX = 300

# kafka-tools would bring the whole of Kafka Connect; the dump tool needs only what the broker brings already.
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>headwater</groupId>
  <artifactId>kafka-for-tests</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-tools</artifactId>
      <version>{KAFKA_VERSION}</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>
  </dependencies>
</project>
"""


STREAMS_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>headwater</groupId>
  <artifactId>streams-for-tests</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-streams</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "headwater"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def alone(name: str) -> Iterator[None]:
    """One process at a time does this, among all that share the cache folder."""
    with (cache_folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@functools.cache
def java_command() -> str:
    found = shutil.which("java")
    if found is None:
        raise NotAvailable(f"Java is not installed; Java {JAVA_VERSION_MIN} or newer is needed here.")
    said = subprocess.run([found, "-version"], capture_output=True, text=True, check=False).stderr
    version = said.partition('"')[2].partition(".")[0]
    if not version.isdigit() or int(version) < JAVA_VERSION_MIN:
        raise NotAvailable(
            f"Java {version or 'of an unknown version'} is too old; {JAVA_VERSION_MIN} or newer is needed here."
        )
    return found


@functools.cache
def kafka_class_path() -> str:
    """The class path of Apache Kafka; downloads it when it is not there yet."""
    return downloaded("apache-kafka", POM)


@functools.cache
def streams_class_path() -> str:
    """The class path of Kafka Streams, its client included."""
    return downloaded("kafka-streams", STREAMS_POM)


def downloaded(name: str, pom: str) -> str:
    java_command()
    folder = cache_folder() / f"{name}-{KAFKA_VERSION}"
    with alone(name):
        if not folder.exists():
            download(folder, pom)
    return f"{folder}/*"


@functools.cache
def compiled(name: str, sources: Sequence[Path], jars: str) -> str:
    """The class path of a program of ours with the jars it needs; compiles it when its source has changed."""
    compiler = shutil.which("javac")
    if compiler is None:
        raise NotAvailable("javac is not installed, so that programs around Kafka's jars cannot be compiled.")
    fingerprint = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    classes = cache_folder() / f"{name}-{fingerprint}"
    with alone(name):
        if not classes.exists():
            fresh = classes.with_suffix(".part")
            command = [compiler, "-nowarn", "-cp", jars, "-d", str(fresh), *map(str, sources)]
            subprocess.run(command, check=True, capture_output=True)
            fresh.rename(classes)
    return f"{classes}:{jars}"


def download(folder: Path, pom: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NotAvailable("mvn is not installed, so that Apache Kafka's jars cannot be fetched from Maven Central.")
    work = folder.with_suffix(".part")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    (work / "pom.xml").write_text(pom)
    # Named by version, because the short form "dependency:" would ask for whatever is newest.
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
    command = [maven, "-q", "-B", "-f", str(work / "pom.xml"), goal, f"-DoutputDirectory={work / 'lib'}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise NotAvailable(f"Maven Central did not give Apache Kafka's jars within {DOWNLOAD_SECONDS_MAX} s.") from None
    if done.returncode != 0:
        raise NotAvailable("Apache Kafka's jars could not be fetched from Maven Central.")
    (work / "lib").rename(folder)
    shutil.rmtree(work)
