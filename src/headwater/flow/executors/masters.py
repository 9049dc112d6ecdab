"""What the URL of a Spark master says: whether executors run elsewhere, and how they find the driver."""

import os
import socket
from collections.abc import Mapping

from headwater.errors import FlowError

CLUSTERS = ("spark://", "k8s://", "yarn")
DRIVER_HOST = "spark.driver.host"
STANDALONE, STANDALONE_PORT = "spark://", 7077
KAFKA_VARIABLES, STORE_VARIABLES = "HEADWATER_KAFKA_", ("PGPASSFILE", "PGSSLROOTCERT")
"""Variables that say how to log in; those that hold secrets name files."""

EXECUTOR_PYTHON, EXECUTOR_ENVIRONMENT, EXECUTOR_OPTIONS = (
    "spark.pyspark.python", "spark.executorEnv.", "spark.executor.extraJavaOptions",
)  # fmt: skip


def executors_elsewhere(master: str) -> bool:
    """Whether executors are processes of a cluster, which share neither a fork server nor temporary files with us.

    >>> [executors_elsewhere(one) for one in ("local[*,4]", "local-cluster[2,1,1024]", "spark://m:7077", "yarn")]
    [False, False, True, True]
    """
    return master.startswith(CLUSTERS)


def standalone_masters(master: str) -> list[tuple[str, int]]:
    """Host and port of each master of a standalone cluster; none for other kinds of cluster.

    >>> standalone_masters("spark://m1:7077,m2")
    [('m1', 7077), ('m2', 7077)]
    """
    if not master.startswith(STANDALONE):
        return []
    found = []
    for one in master.removeprefix(STANDALONE).split(","):
        host, colon, port = one.rpartition(":")
        if not colon:
            host, port = one, str(STANDALONE_PORT)
        if not host or not port.isdigit():
            raise FlowError(f"the Spark master {master} is not spark://HOST:PORT", "Say --master spark://m:7077.")
        found.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return found


def address_towards(master: str) -> str | None:
    """The address of this machine that the master sees, under which executors find the driver; None if only the user
    can say. Nothing is sent to find out."""
    for host, port in standalone_masters(master):
        try:
            family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(where)
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return None


def executor_settings(master: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Settings of Spark's for a cluster, where `settings` of the user do not say otherwise.

    Executors log in to Kafka and PostgreSQL as this process does, with the files that have the same names there.
    """
    found = {EXECUTOR_OPTIONS: f"-Xss4m {settings.get(EXECUTOR_OPTIONS, '')}".strip()}
    for name, value in environment.items():
        if value and (name.startswith(KAFKA_VARIABLES) or name in STORE_VARIABLES):
            found[f"{EXECUTOR_ENVIRONMENT}{name}"] = value
    found |= {name: value for name, value in settings.items() if name in found and name != EXECUTOR_OPTIONS}
    if DRIVER_HOST not in settings and (own := address_towards(master)) is not None:
        found[DRIVER_HOST] = own
    return found


def executor_python(settings: Mapping[str, str], here: str) -> str:
    """The Python that executors run: as Spark's own settings say, else the path of the one `here`."""
    return settings.get(EXECUTOR_PYTHON) or os.environ.get("PYSPARK_PYTHON") or here
