"""Spark's JVM as a process of its own, with a gateway that Python talks to it through.

pyspark can launch one too, but then everything else waits until it is up.
"""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from headwater.errors import FlowError

PAUSE_SECONDS = 0.02
CONNECTION_VARIABLE = "_PYSPARK_DRIVER_CONN_INFO_PATH"


@dataclass(frozen=True)
class Jvm:
    process: "subprocess.Popen[bytes]"
    folder: Path
    """Where it says how it can be reached."""
    log: Path

    def gateway(self) -> Any:
        """Waits until it can be reached; FlowError if it ends before."""
        try:
            self._wait()
            with (self.folder / "gateway").open("rb") as said:
                port, secret = read_int(said), UTF8Deserializer().loads(said)  # type: ignore[no-untyped-call]
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        with _environment(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
            return launch_gateway()  # type: ignore[no-untyped-call]

    def _wait(self) -> None:
        # It writes under another name first, so a file that is there is whole.
        while not (self.folder / "gateway").is_file():
            try:
                code = self.process.wait(PAUSE_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            raise FlowError(f"Spark's JVM ended with {code} before it could be used", f"See {self.log}.")

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()  # it ends when the other end is closed
        if self.folder.exists():
            self.process.terminate()  # it has not come so far that it would notice
            shutil.rmtree(self.folder, ignore_errors=True)
        self.process.wait()


def spark_home() -> Path:
    return Path(_find_spark_home())


def launch(settings: Iterable[tuple[str, str]], log: IO[bytes], environment: Mapping[str, str] | None = None) -> Jvm:
    folder = Path(tempfile.mkdtemp(prefix="headwater-jvm-"))
    command = [str(spark_home() / "bin" / "spark-submit")]
    for key, value in settings:
        command += ["--conf", f"{key}={value}"]
    command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    own = {"SPARK_CONNECT_MODE": "0", CONNECTION_VARIABLE: str(folder / "gateway")}
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE, stdout=log, stderr=log,
        env={**os.environ, **(environment or {}), **own},
        preexec_fn=_leave_interrupts_to_the_driver,
    )  # fmt: skip
    return Jvm(process, folder, Path(log.name))


def _leave_interrupts_to_the_driver() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
