"""Find a Java that Spark runs on, or say how to get one."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from headwater.errors import FlowError

VERSION_MIN = 17
WAY_OUT = (
    f"Install Java {VERSION_MIN} or later (Debian and Ubuntu: apt-get install openjdk-17-jre-headless) "
    "or set JAVA_HOME to one."
)


def find_java() -> Path:
    """The folder to use as JAVA_HOME."""
    home = os.environ.get("JAVA_HOME")
    program = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "")
    if not program.is_file():
        raise FlowError(f"there is no Java {'in JAVA_HOME ' + home if home else 'on this machine'}", WAY_OUT)
    version = java_version(_version_text(program))
    if version < VERSION_MIN:
        raise FlowError(f"{program} is Java {version or 'of an unknown version'}", WAY_OUT)
    return program.resolve().parent.parent


def java_version(text: str) -> int:
    """
    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_292"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else 0


def _version_text(program: Path) -> str:
    try:
        return subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""
