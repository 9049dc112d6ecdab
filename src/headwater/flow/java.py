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
    found = program.resolve().parent.parent
    version = java_version(version_text(found))
    if version < VERSION_MIN:
        raise FlowError(f"{program} is Java {version or 'of an unknown version'}", WAY_OUT)
    return found


def java_version(text: str) -> int:
    """
    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_292"')
    (17, 8)
    >>> java_version('IMPLEMENTOR="Debian"\\nJAVA_VERSION="21.0.1"')
    21
    """
    found = re.search(r'(?:^JAVA_VERSION=| version )"(?:1\.)?(\d+)', text, re.MULTILINE)
    return int(found[1]) if found else 0


def version_text(home: Path) -> str:
    """What a Java says about itself: in the file it is shipped with, for to ask it takes a tenth of a second."""
    try:
        text = (home / "release").read_text()
    except (OSError, UnicodeDecodeError):
        text = ""
    return text if java_version(text) else _said_by(home / "bin" / "java")


def _said_by(program: Path) -> str:
    try:
        return subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""
