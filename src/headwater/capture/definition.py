"""The definition of a capture: plain data, in a file that only its owner can read.

data/captures/users/
├── definition.json    what was asked, with the URL and its password: mode 0600
├── status.json        how it is, written by the node that runs it
├── untouched          only until its source was reached for the first time: no record of it is in the log
├── requests/          what it is asked to do once (copy a table again), taken away when done
└── values.sqlite      see last_values.py
"""

import json
import logging
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from headwater.capture.followed_files.lines import fits
from headwater.capture.topic_names import MANY_TABLES, listed, topics_listed
from headwater.errors import CaptureExists, DamagedFile, HeadwaterError, InvalidCapture, UnknownCapture, UnsafeBind
from headwater.log.storage import LocalStorage, delete_small_file, read_small_file, write_small_file
from headwater.secret_urls import WAY_OUT, ambiguity, without_secrets
from headwater.small_file import copy_path, seal, small_files

_logger = logging.getLogger(__name__)

FOLDER = "captures"
DEFINITION, STATUS, REQUESTS, UNTOUCHED = "definition.json", "status.json", "requests", "untouched"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
POSTGRES, MARIADB, SQLITE, STATSD, FILES = "postgres", "mariadb", "sqlite", "statsd", "files"
KINDS = {
    "postgresql": POSTGRES, "postgres": POSTGRES, "mariadb": MARIADB, "mysql": MARIADB, "sqlite": SQLITE,
    "statsd": STATSD, "file": FILES,
}  # fmt: skip
DATABASES = (POSTGRES, MARIADB, SQLITE)
ON_HOSTS = (POSTGRES, MARIADB)
ONE_TABLE = "{capture}"


@dataclass(frozen=True, kw_only=True)
class Definition:
    """One capture. Its repr shows no password."""

    name: str
    url: str = field(repr=False)
    tables: tuple[str, ...] = ()
    topic: str = ""
    """A template (topic_names.py); "" is the capture's name for one table, {capture}.{schema}.{table} for several."""

    partitions: int = 1
    snapshot: bool = True
    transactions: bool = False
    """Write transactions' begins and ends to the topic {capture}.transaction."""

    heartbeat_seconds: float = 10.0
    retained_bytes_max: int | None = None
    at_limit: str = "drop-slot"
    outbox: bool = False
    """Relay the rows that are inserted as events (relay.py)."""

    key_column: str = ""
    value_column: str = "payload"
    interval_seconds: float = 10.0
    """Of metrics: the interval at which they are emitted."""

    encoding: str = "utf-8"
    """Of lines."""

    public: bool = False
    """Of a port that is listened at: other machines may reach it, though there is no authentication."""

    token: str = ""
    """Part of the name of what it makes at the database."""

    revision: int = 0
    """How often it was changed: what its status says may still be of the one before."""

    removing: bool = False
    forced: bool = False
    """Remove it even where its database cannot be cleaned up."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise InvalidCapture(
                f"{self.name[:80]!r} cannot name a capture",
                "Use up to 100 letters, digits, dots, dashes and underscores, and begin with a letter or digit.",
            )
        check_url(self.url)
        database = kind_of(self.url) in DATABASES
        if self.tables and not database:
            raise InvalidCapture(f"capture {self.name} is of no database, and has no tables", "Leave --table out.")
        if database and not self.tables:
            raise InvalidCapture(f"capture {self.name} names no table", "Say which with --table SCHEMA.TABLE.")
        if self.transactions and kind_of(self.url) != POSTGRES:
            raise InvalidCapture(
                f"capture {self.name} has no transaction boundaries", "Only a PostgreSQL capture has them."
            )
        if self.outbox and len(self.tables) != 1:
            raise InvalidCapture(f"capture {self.name} relays one table of events", "Give each a capture of its own.")
        if kind_of(self.url) == STATSD:
            check_address(*address_of(self.url), public=self.public)
        if kind_of(self.url) == FILES:
            check_files(pattern_of(self.url), self.encoding)
        if not self.interval_seconds > 0:
            raise InvalidCapture(f"capture {self.name} cannot emit metrics every {self.interval_seconds:g} seconds")
        if self.partitions < 1:
            raise InvalidCapture(f"capture {self.name} cannot write to {self.partitions} partitions")

    @property
    def topic_template(self) -> str:
        single = not self.tables or (len(self.tables) == 1 and not any(sign in self.tables[0] for sign in "*?["))
        return self.topic or (ONE_TABLE if single else MANY_TABLES)

    @property
    def shown_url(self) -> str:
        return without_secrets(self.url)

    def grown_to(self, wanted: "Definition") -> "Definition | None":
        """With the tables that an app has in addition; those that it no longer has stay. None if more is different."""
        tables = topics_listed(self.topic) | topics_listed(wanted.topic)
        mine, theirs = (
            replace(one, tables=tuple(sorted(tables)), topic=listed(tables)) if topics_listed(one.topic) else one
            for one in (self, wanted)
        )
        url = self.url if wanted.url == self.shown_url else wanted.url
        return replace(mine, url=url) if mine.same_as(theirs) else None

    def same_as(self, other: "Definition") -> bool:
        """Whether two say the same, but for passwords and for the names that were made for them."""
        made = {"token": "", "revision": 0, "removing": False, "forced": False}
        mine, theirs = (asdict(one) | made | {"url": one.shown_url} for one in (self, other))
        return mine == theirs


def kind_of(url: str) -> str:
    scheme = url.partition("://")[0]
    if "://" not in url or scheme not in KINDS:
        raise InvalidCapture(
            f"{without_secrets(url)!r} is no database that can be captured, nor anything else",
            "Write postgresql://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, sqlite:///PATH, "
            "statsd://127.0.0.1:8125 or file:///PATH.",
        )
    return KINDS[scheme]


def check_url(url: str) -> None:
    """InvalidCapture if a password may stand in an unexpected part of the URL. The message does not repeat it."""
    if kind_of(url) in ON_HOSTS and (why := ambiguity(url)):
        raise InvalidCapture(f"the URL of a {url.partition('://')[0]} database {why}", WAY_OUT)


def address_of(url: str) -> tuple[str, int]:
    """Where to listen.

    >>> address_of("statsd://127.0.0.1:8125")
    ('127.0.0.1', 8125)
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port is None:
        raise InvalidCapture(f"{url!r} names no address to listen at", "Write statsd://127.0.0.1:8125.")
    return host, port


def check_address(host: str, port: int, *, public: bool) -> None:
    try:
        loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        raise InvalidCapture(f"{host!r} is no address to listen at", "Write statsd://127.0.0.1:8125.") from None
    if not loopback and not public:
        raise UnsafeBind(f"{host}:{port}")


def pattern_of(url: str) -> str:
    """
    >>> pattern_of("file:///var/log/*.log")
    '/var/log/*.log'
    """
    return url.removeprefix("file://")


def check_files(pattern: str, encoding: str) -> None:
    if not Path(pattern).is_absolute():
        raise InvalidCapture(f"{pattern!r} is no absolute path", "Write file:///var/log/app.log, or a pattern.")
    if not fits(encoding):
        raise InvalidCapture(f"{encoding!r} is no encoding whose lines end in a byte 10", "Use utf-8 or latin-1.")


def with_absolute_path(url: str) -> str:
    """
    >>> with_absolute_path("sqlite:////var/lib/shop.db")
    'sqlite:////var/lib/shop.db'
    """
    scheme, _, path = url.partition(":///")
    return f"{scheme}:///{Path(path).absolute()}"


def with_password(url: str, password: str) -> str:
    """The URL with a password that came another way; one that it has already stays.

    >>> with_password("postgresql://ada@db/shop", "se/cret")
    'postgresql://ada:se%2Fcret@db/shop'
    """
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    if ":" in user or not user:
        return url
    return urlunsplit(parts._replace(netloc=f"{quote(unquote(user), safe='')}:{quote(password, safe='')}@{host}"))


class Definitions:
    """The captures of one data directory. Several processes may look; a definition is replaced as a whole."""

    def __init__(self, data: Path) -> None:
        self.folder = data / FOLDER
        self._storage = LocalStorage(self.folder, private=True)
        self._unreadable: dict[str, str] = {}

    def names(self) -> list[str]:
        return sorted(path.parent.name for path in small_files(self.folder, f"*/{DEFINITION}"))

    def all(self) -> Iterator[Definition]:
        """Returns the readable definitions.

        An unreadable one must not keep the others from running; it is logged once.
        """
        for name in self.names():
            try:
                yield self.get(name)
            except UnknownCapture:
                continue  # just removed
            except HeadwaterError as error:
                if self._unreadable.get(name) != str(error):
                    self._unreadable[name] = str(error)
                    _logger.error("capture %s does not run: %s", name, error)

    def get(self, name: str) -> Definition:
        path = self.folder / name / DEFINITION
        try:
            content = read_small_file(self._storage, f"{name}/{DEFINITION}").content
            known = {one.name for one in fields(Definition)}
            values = {key: value for key, value in content.items() if key in known}
            return Definition(**{**values, "tables": tuple(values.get("tables", ()))})
        except FileNotFoundError:
            raise UnknownCapture(name, self.names()) from None
        except (DamagedFile, ValueError, TypeError, AttributeError):
            # What was wrong is not repeated: the file has a password.
            raise InvalidCapture(
                f"the definition of capture {name} cannot be read: {path} is damaged",
                f"Remove the file and {copy_path(DEFINITION)} beside it, and make the capture again with "
                f'"headwater capture add {name}".',
            ) from None

    def add(self, definition: Definition) -> Definition:
        """Keep it; one that is there already and says the same stays, with the password that was given last."""
        if definition.name in self.names():
            known = self.get(definition.name)
            if known.same_as(definition) and not known.removing:
                if definition.url not in (known.url, known.shown_url):
                    known = replace(known, url=definition.url, revision=known.revision + 1)
                    self.save(known)
                return known
            grown = None if known.removing else known.grown_to(definition)
            if grown is not None:
                if grown != known:
                    grown = replace(grown, revision=known.revision + 1)
                    self.save(grown)
                return grown
            failed = bool((self.status(definition.name) or {}).get("failures"))
            same_but_for_url = known.same_as(replace(definition, url=known.url))
            if not self.is_untouched(definition.name) or not (failed or same_but_for_url):
                raise CaptureExists(definition.name)
            # It has never reached its source, so that nothing in the log is of it: the new definition replaces it.
            _logger.info("capture %s replaces one that never began", definition.name)
            definition = replace(definition, revision=known.revision + 1)
        made = replace(definition, token=definition.token or secrets.token_hex(3))
        self.of(made.name).mkdir(parents=True, exist_ok=True)
        (self.of(made.name) / UNTOUCHED).touch()
        (self.of(made.name) / STATUS).unlink(missing_ok=True)
        self.save(made)
        return made

    def is_untouched(self, name: str) -> bool:
        """Has it never reached its source? One that an older version made is taken to have done so."""
        return (self.of(name) / UNTOUCHED).exists()

    def begun(self, name: str) -> None:
        (self.of(name) / UNTOUCHED).unlink(missing_ok=True)

    def remove(self, name: str, *, force: bool = False) -> None:
        """Ask the node that runs it to take it away."""
        if name not in self.names():
            raise UnknownCapture(name[:80], self.names())
        self.save(replace(self.get(name), removing=True, forced=force))

    def save(self, definition: Definition) -> None:
        folder = self.of(definition.name)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        write_small_file(self._storage, f"{definition.name}/{DEFINITION}", asdict(definition))

    def of(self, name: str) -> Path:
        return self.folder / name

    def delete(self, name: str) -> None:
        """The definition goes first: what is left without one means nothing."""
        folder = self.of(name)
        if folder.is_dir():
            delete_small_file(self._storage, f"{name}/{DEFINITION}")
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        if folder.is_dir():
            folder.rmdir()

    # -- what it is asked to do once, and how it is ------------------------------------------------------------------

    def request(self, name: str, what: dict[str, object]) -> Path:
        self.get(name)
        folder = self.of(name) / REQUESTS
        folder.mkdir(exist_ok=True)
        path = folder / f"{secrets.token_hex(8)}.json"
        write_privately(path, seal(what, version=1))
        return path

    def requests(self, name: str) -> list[Path]:
        return sorted(self.of(name).glob(f"{REQUESTS}/*.json"))

    def report(self, name: str) -> dict[str, object]:
        """How it is, also where nothing was written of it: with the reason why it does not run."""
        try:
            removing = self.get(name).removing
        except HeadwaterError as error:
            return {"state": "refused", "said": str(error)}
        status = self.status(name) or {"state": "not started", "said": ""}
        return {**status, "state": "removing"} if removing and status["state"] == "stopped" else status

    def status(self, name: str) -> dict[str, object] | None:
        try:
            found: dict[str, object] = json.loads((self.of(name) / STATUS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found


def write_privately(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace a file as a whole, durably unless said otherwise, readable by its owner alone from its first byte on."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(file, content)
        if durable:
            os.fsync(file)
    finally:
        os.close(file)
    fresh.replace(path)
    if not durable:
        return
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
