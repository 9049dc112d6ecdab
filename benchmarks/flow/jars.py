"""What peers need beside Spark, from Maven Central, fetched once by `mvn` into the user's cache folder."""

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import pyspark

from tests.clients.brokers.maven import DOWNLOAD_SECONDS_MAX, alone, cache_folder
from tests.clients.brokers.process import NotAvailable

SPARK = "org.apache.spark"
CONNECTOR, TOKENS = "spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13"
CONNECTOR_VERSIONS = (pyspark.__version__, "4.2.0")
"""The connector of Spark's own version, or else the newest before it: it may not have been published yet."""

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>headwater</groupId>
  <artifactId>peer-for-benchmarks</artifactId>
  <version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
# What they need in turn is either named here too, or Spark has it.
DEPENDENCY = """
    <dependency>
      <groupId>{0.group}</groupId><artifactId>{0.name}</artifactId><version>{0.version}</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>"""


class Artifact(NamedTuple):
    group: str
    name: str
    version: str


class Peer(NamedTuple):
    """Jars of a peer, as Spark takes them in `spark.jars`, and their version."""

    version: str
    jars: str


@cache
def kafka_connector() -> Peer:
    """Spark's own source for Kafka; raises NotAvailable."""
    *newer, last = CONNECTOR_VERSIONS
    for version in newer:
        try:
            return fetched(connector_parts(version))
        except NotAvailable:
            continue
    return fetched(connector_parts(last))


def connector_parts(version: str) -> list[Artifact]:
    return [
        Artifact(SPARK, CONNECTOR, version),
        Artifact(SPARK, TOKENS, version),
        Artifact("org.apache.kafka", "kafka-clients", "3.9.2"),
        Artifact("org.apache.commons", "commons-pool2", "2.13.1"),
        Artifact("org.scala-lang.modules", "scala-parallel-collections_2.13", "1.2.0"),
    ]


@cache
def postgres_driver() -> Peer:
    """PostgreSQL's JDBC driver; raises NotAvailable."""
    return fetched([Artifact("org.postgresql", "postgresql", "42.7.7")])


def fetched(parts: Sequence[Artifact]) -> Peer:
    """The first part gives the name and the version."""
    named = parts[0]
    folder = cache_folder() / f"{named.name}-{named.version}"
    with alone(named.name):
        if not folder.exists():
            download(parts)
    return Peer(named.version, ",".join(str(jar) for jar in sorted(folder.glob("*.jar"))))


def download(parts: Sequence[Artifact]) -> None:
    named, maven = parts[0], shutil.which("mvn")
    if maven is None:
        raise NotAvailable(f"mvn is not installed, so that {named.name} cannot be fetched from Maven Central.")
    folder = cache_folder() / f"{named.name}-{named.version}"
    work = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        (work / "pom.xml").write_text(POM.format(dependencies="".join(DEPENDENCY.format(part) for part in parts)))
        command = [maven, "-q", "-B", "-f", str(work / "pom.xml"), COPY, f"-DoutputDirectory={work / 'lib'}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS_MAX, check=False)
        if done.returncode != 0:
            raise NotAvailable(f"{named.name} {named.version} could not be fetched from Maven Central.")
        (work / "lib").rename(folder)
    except subprocess.TimeoutExpired:
        raise NotAvailable(f"Maven Central did not give {named.name} within {DOWNLOAD_SECONDS_MAX} s.") from None
    finally:
        shutil.rmtree(work)
