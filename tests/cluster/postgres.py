"""The PostgreSQL of a cluster: on a host of its own, reached over TCP by all others."""

import pwd
import subprocess
from pathlib import Path
from typing import IO

from headwater.demo.cluster import Cluster, create_database
from headwater.views.postgres_programs import server_user
from tests.clients.brokers.process import free_port
from tests.cluster.hosts import Host


class HostedPostgres(Cluster):
    def __init__(self, programs: Path, folder: Path, host: Host) -> None:
        self._host, self._port = host, free_port()
        super().__init__(programs, folder, {"listen_addresses": host.address, "port": str(self._port), "fsync": "on"})
        with (folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 198.51.100.0/24 trust\nhost replication all 198.51.100.0/24 trust\n")

    def database(self, name: str) -> str:
        """The URL of a new database, for other hosts."""
        create_database(self, name)
        return f"postgresql://postgres@{self._host.address}:{self._port}/{name}"

    def _launched(self, command: list[str | Path], log: IO[bytes]) -> "subprocess.Popen[bytes]":
        if not self._host.namespace:
            return super()._launched(command, log)
        # Only root may enter a namespace, and only another user may run the server.
        user = pwd.getpwnam(server_user() or "nobody")
        own = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", *map(str, command)]
        return subprocess.Popen(self._host.command(own), stdout=log, stderr=log, cwd=self._folder, process_group=0)
