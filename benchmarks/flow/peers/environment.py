"""An interpreter for each peer from PyPI, made once in the user's cache folder: they agree on no versions."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.clients.brokers.maven import cache_folder
from tests.clients.brokers.process import NotAvailable

PACKAGES = {
    "flink": ("apache-flink==2.3.0",),
    "pathway": ("pathway==0.33.0",),
    "bytewax": ("bytewax==0.21.1",),
}
INSTALL_SECONDS_MAX = 900


@cache
def interpreter_of(peer: str) -> Path:
    """NotAvailable, with the reason, if its packages cannot be had."""
    packages = PACKAGES[peer]
    folder = cache_folder() / "peers" / "-".join(packages).replace("==", "-")
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _run([sys.executable, "-m", "venv", str(folder)], peer)
        _run([str(python), "-m", "pip", "install", "--quiet", *packages], peer)
        done.touch()
    return python


def _run(command: list[str], peer: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_CONSTRAINT")}
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotAvailable(f"{peer} was not installed within {INSTALL_SECONDS_MAX} seconds") from None
    if ended.returncode != 0:
        said = ended.stderr.strip().splitlines()
        raise NotAvailable(f"{peer} cannot be installed: {said[-1] if said else ended.returncode}")
