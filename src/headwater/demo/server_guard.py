"""Stops a server when the process that started it ends, even if that process is killed.

A shell beside it waits at the end of a pipe whose other end only we hold. A line says that we look after everything
ourselves. A pipe that ends without one says that this process ended: then PostgreSQL's own program stops the server,
which knows from the folder whose number is whose, and the folder is removed.
"""

import subprocess
from pathlib import Path

SCRIPT = 'read -r line || { "$1" -s -D "$2/data" -m immediate stop; cd / && rm -rf "$2"; }'
PATIENCE_SECONDS = 10


class Keeper:
    """For the server whose data is in `folder`/data, run by `user`, the same as ours if there is none."""

    def __init__(self, programs: Path, folder: Path, user: str | None) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", SCRIPT, "headwater-keeper", programs / "pg_ctl", folder],
            user=user, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,  # what ends us, a terminal's Ctrl-C or a group's kill, must not end it too
        )  # fmt: skip

    def dismiss(self) -> None:
        self._process.communicate(b"all is in order\n", PATIENCE_SECONDS)
