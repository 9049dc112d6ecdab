"""Where the views of a data directory are, if they are in a PostgreSQL of its own.

data/postgresql/server.json        how headwater reaches it: port and passwords; readable by its owner alone, as are
data/postgresql/url                how others read views: a URL with a user that can only read
data/postgresql/pg_service.conf    the same for psql: PGSERVICEFILE=data/postgresql/pg_service.conf psql service=views
data/postgresql/cluster/           PostgreSQL's own files, of the user that it runs as
data/postgresql/server.log         what it says

An app that has views in SQLite keeps them there: which of the two an app has is said by its files in views/.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

FOLDER, SERVER_FILE, URL_FILE, SERVICE_FILE = "postgresql", "server.json", "url", "pg_service.conf"
HOST, DATABASE, OWNER, READER = "127.0.0.1", "views", "headwater", "reader"
VIEWS, MARK = "views", ".postgresql"
"""views/<app>.postgresql: an empty file of an app whose views are there."""


@dataclass(frozen=True)
class Access:
    """How the server of a data directory is reached."""

    port: int
    owner_password: str
    reader_password: str

    def url(self, database: str = DATABASE) -> str:
        """For headwater itself; the server is on this machine, so nothing is encrypted."""
        return f"postgresql://{OWNER}:{self.owner_password}@{HOST}:{self.port}/{database}?sslmode=disable&gssencmode=disable"

    @property
    def reader_url(self) -> str:
        return f"postgresql://{READER}:{self.reader_password}@{HOST}:{self.port}/{DATABASE}"


def read_access(data: str | Path) -> Access | None:
    """None: the data directory has no PostgreSQL."""
    try:
        said = json.loads((Path(data) / FOLDER / SERVER_FILE).read_text(encoding="utf-8"))
        return Access(int(said["port"]), str(said["owner_password"]), str(said["reader_password"]))
    except FileNotFoundError:
        return None


def kept_in_postgres(data: str | Path, app: str) -> bool:
    """Whether the views of an app are, or are going to be, in the PostgreSQL of the data directory."""
    views = Path(data) / VIEWS
    return (views / f"{app}{MARK}").exists() or (
        (Path(data) / FOLDER / SERVER_FILE).exists() and not (views / f"{app}.sqlite").exists()
    )


def runs(data: Path) -> bool:
    """Whether the server runs, by its own file; one that was killed itself is taken for one that runs."""
    return (data / FOLDER / "cluster" / "postmaster.pid").exists()


def mark_app(data: str | Path, app: str) -> None:
    views = Path(data) / VIEWS
    views.mkdir(parents=True, exist_ok=True)
    (views / f"{app}{MARK}").touch()


def write_access(data: Path, access: Access) -> None:
    folder = data / FOLDER
    service = [f"[{DATABASE}]", f"host={HOST}", f"port={access.port}", f"dbname={DATABASE}", f"user={READER}",
               f"password={access.reader_password}", ""]  # fmt: skip
    write_privately(folder / URL_FILE, f"{access.reader_url}\n")
    write_privately(folder / SERVICE_FILE, "\n".join(service))
    said = {"port": access.port, "owner_password": access.owner_password, "reader_password": access.reader_password}
    write_privately(folder / SERVER_FILE, json.dumps(said) + "\n")


def write_privately(file: Path, text: str) -> None:
    fresh = file.with_name(f"{file.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    fresh.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename lives in the folder: a power cut must not take the only password
    finally:
        os.close(folder)
