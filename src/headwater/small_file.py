"""The bytes of a small file of ours: a JSON value with a checksum, and a copy of the file beside it. Pure.

    {"checksum":"4ad4e3bc","version":7,"content":{"partitions":3}}

The checksum is the CRC-32C of the version, a line feed and the content, as they stand in the file. Each write makes the
version one larger, and writes the same bytes twice: under the file's name, and under that of its copy:

    topics/orders.json  and  topics/orders.copy          checkpoint  and  checkpoint.copy

So a file that is deleted, torn, flipped or exchanged for an older version is known to be, and its copy says the same as
it did. Only a crash between the two renames of a write leaves them one version apart; then the newer one counts.
Files of earlier releases have no checksum and no copy; their content is version 0.

`log/storage/small_files.py` reads and writes such files. Parts that may not import the log read with `read_newest`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crc32c import crc32c

COPY = ".copy"
_HEAD = b'{"checksum":"'
_VERSION = b'","version":'
_CONTENT = b',"content":'
_KEYS = {"checksum", "version", "content"}

Legacy = Callable[[bytes], Any]
"""Decodes what an earlier release wrote; ValueError, KeyError or TypeError if it is damaged."""


@dataclass(frozen=True)
class SmallFile:
    """The content of a small file.

    `problems` are sentences that name each damaged file; the content is right even so.
    """

    path: str
    content: Any
    version: int = 0
    problems: tuple[str, ...] = ()
    in_step: bool = True  # file and copy are both there, sound and of the same version


def copy_path(path: str) -> str:
    """
    >>> copy_path("topics/orders.json"), copy_path("orders-0/checkpoint")
    ('topics/orders.copy', 'orders-0/checkpoint.copy')
    """
    return path.removesuffix(".json") + COPY


def small_files(folder: Path, pattern: str) -> list[Path]:
    """Small files in a folder, by name; also those of which only the copy is left. The pattern ends in .json."""
    copies = (path.with_suffix(".json") for path in folder.glob(copy_path(pattern)))
    return sorted({*folder.glob(pattern), *copies})


def seal(content: object, *, version: int, room: int = 0) -> bytes:
    """`room`: the content takes at least this many bytes, padded with spaces, which the checksum covers too.

    >>> seal({"partitions": 3}, version=7)
    b'{"checksum":"4ad4e3bc","version":7,"content":{"partitions":3}}\\n'
    """
    body = json.dumps(content, separators=(",", ":")).encode().ljust(room)
    checksum = b"%08x" % crc32c(b"%d\n%s" % (version, body))
    return b"%s%s%s%d%s%s}\n" % (_HEAD, checksum, _VERSION, version, _CONTENT, body)


def unseal(data: bytes, *, legacy: Legacy = json.loads) -> tuple[Any, int]:
    """Content and version; ValueError says what is wrong."""
    if not data:
        raise ValueError("it is empty")
    if not data.startswith(_HEAD):
        return _unsealed_legacy(data, legacy), 0
    checksum, _, rest = data.removeprefix(_HEAD).partition(_VERSION)
    version, _, body = rest.partition(_CONTENT)
    if not body.endswith(b"}\n"):
        raise ValueError("its end is missing")
    body = body.removesuffix(b"}\n")
    if checksum != b"%08x" % crc32c(version + b"\n" + body):
        raise ValueError("its checksum does not fit")
    return json.loads(body), int(version)


def _unsealed_legacy(data: bytes, legacy: Legacy) -> Any:
    try:
        content = legacy(data)
    except (KeyError, TypeError) as error:
        raise ValueError(f"it is not what was written ({error})") from None
    except ValueError:
        raise ValueError("it is not what was written") from None
    if isinstance(content, dict) and _KEYS & content.keys():
        raise ValueError("its first bytes are not what was written")  # a sealed one whose beginning was hit
    return content


def read_newest(path: str, read: Callable[[str], bytes], *, legacy: Legacy = json.loads) -> SmallFile:
    """Returns the content of the file, or of its copy where the file is damaged, missing or older than its copy.

    `read` gives the bytes of a path, and may raise OSError. FileNotFoundError if neither is there; ValueError, which
    says why, if neither can be believed.
    """
    copy = copy_path(path)
    file, file_why = _read(path, read, legacy)
    double, copy_why = _read(copy, read, _no_legacy)
    if file is None and double is None:
        if file_why is None and copy_why is None:
            raise FileNotFoundError(path)
        why = file_why or "it is missing"
        raise ValueError(why if copy_why is None else f"{why}; its copy {copy} neither: {copy_why}")
    if file is None or (double is not None and double[1] > file[1]):
        assert double is not None
        problem = _why_copy_is_used(path, file, file_why, double[1])
        return SmallFile(path, *double, problems=(problem,) if problem else (), in_step=False)
    problems: tuple[str, ...] = ()
    if copy_why is not None:
        problems = (f"{copy} is damaged: {copy_why}",)
    elif double is None and file[1] > 1:
        problems = (f"{copy}, the copy of {path}, is missing",)
    elif double is not None and file[1] - double[1] > 1:
        problems = (f"{copy} is an older version, {double[1]} instead of {file[1]}",)
    return SmallFile(path, *file, problems=problems, in_step=double is not None and double[1] == file[1])


def _why_copy_is_used(path: str, file: tuple[Any, int] | None, why: str | None, version: int) -> str | None:
    if why is not None:
        return f"{path} is damaged ({why}); its copy is used"
    if file is None:
        return f"{path} is missing; its copy is used"
    if version - file[1] > 1:
        return f"{path} is an older version, {file[1]} instead of {version}; its copy is used"
    return None  # a write was cut off between its two renames


def _read(path: str, read: Callable[[str], bytes], legacy: Legacy) -> tuple[tuple[Any, int] | None, str | None]:
    """Content and version, or why not; neither if the file is missing."""
    try:
        return unseal(read(path), legacy=legacy), None
    except FileNotFoundError:
        return None, None
    except (OSError, ValueError) as error:
        return None, str(error)


def _no_legacy(_: bytes) -> Any:
    raise ValueError
