"""A real S3 server: moto's, in a process of its own. It keeps conditions of writes (If-Match, If-None-Match)."""

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import LONG, wait_until

BUCKET = "bucket"


def environment(endpoint: str) -> dict[str, str]:
    """In which processes find the server."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "headwater",
        "AWS_SECRET_ACCESS_KEY": "not-a-secret",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


@contextmanager
def running_s3(folder: Path) -> Iterator[str]:
    """The endpoint of a server with one bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (folder / "s3.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **environment(endpoint)})
        try:
            wait_until(lambda: process.poll() is not None or _bucket_made(endpoint), "the S3 server starts", seconds=60)
            assert process.poll() is None, (folder / "s3.log").read_text()
            yield endpoint
        finally:
            process.kill()
            process.wait()


def _bucket_made(endpoint: str) -> bool:
    try:
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT"), timeout=LONG).close()
    except (urllib.error.URLError, OSError):
        return False
    return True
