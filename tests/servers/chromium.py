"""A real browser: Debian's Chromium, installed if it can be."""

import os
import shutil
import subprocess

import pytest

INSTALL = [
    "apt-get", "-o", "DPkg::Lock::Timeout=500", "install", "-y", "--no-install-recommends", "chromium",
]  # fmt: skip


def chromium() -> str:
    """Where it is; skips the test where it cannot be had."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(INSTALL, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, capture_output=True,
                       stdin=subprocess.DEVNULL, timeout=600, check=False)  # fmt: skip
        found = shutil.which("chromium")
    if found is None:
        pytest.skip("there is no Chromium; on Debian: apt-get install chromium")
    return found
