"""A real nginx: Debian's, fetched and unpacked, and not installed: an installed one would serve port 80 at once."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.brokers.maven import alone, cache_folder
from tests.waiting import LONG
from tests.webhooks.target import closed_port

CONFIGURATION = """
daemon off; pid {folder}/pid; error_log {folder}/errors;
events {{}}
http {{
    access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
    uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
    server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://{target}; }} }}
}}
"""


def nginx() -> str:
    """Where the program is; skips the test where it cannot be had."""
    found = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin") or _unpacked()
    if found is None:
        pytest.skip("there is no nginx, and apt-get does not give one")
    return found


def _unpacked() -> str | None:
    folder = cache_folder() / "nginx"
    program = folder / "usr" / "sbin" / "nginx"
    with alone(folder.name):
        if not program.exists() and shutil.which("apt-get") and shutil.which("dpkg-deb"):
            folder.mkdir(exist_ok=True)
            subprocess.run(["apt-get", "download", "nginx"], cwd=folder, capture_output=True, check=False)
            for package in folder.glob("nginx_*.deb"):
                subprocess.run(["dpkg-deb", "-x", package, folder], capture_output=True, check=False)
    # Libraries that it needs and that are not there are those of another release.
    usable = program.exists() and subprocess.run([program, "-v"], capture_output=True, check=False).returncode == 0
    return str(program) if usable else None


@contextmanager
def running_nginx(folder: Path, target: str) -> Iterator[int]:
    """The port of a proxy as nginx's documentation begins: a location and proxy_pass, without any header."""
    program, port = nginx(), closed_port()
    (folder / "nginx.conf").write_text(CONFIGURATION.format(folder=folder, port=port, target=target))
    with (folder / "said").open("wb") as said:
        command = [program, "-e", str(folder / "errors"), "-p", str(folder), "-c", str(folder / "nginx.conf")]
        process = subprocess.Popen(command, stderr=said)
    try:
        while not _answers(port):
            assert process.poll() is None, (folder / "said").read_text() + (folder / "errors").read_text()
            time.sleep(0.02)
        yield port
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=LONG).close()
    except OSError:
        return False
    return True
