"""Objects in a bucket: s3://, gs://, abfs:// and what else obstore reaches.

Logins, region and endpoint come from the environment, as for every tool of that cloud (AWS_ACCESS_KEY_ID,
AWS_ENDPOINT_URL, …). Each object is sent with a checksum that the server compares. Retries are not obstore's but ours
(retries.py): who repeats a conditional write has to know whether it was the first.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from headwater.errors import JobRefused, StateUnavailable
from headwater.flow.objects.objects import Overtaken, Stored, Tagged
from headwater.secret_urls import without_secrets

TIMEOUT, CONNECT_TIMEOUT = timedelta(seconds=20), timedelta(seconds=5)
PART_BYTES = 16 * 1024**2
"""A larger object is sent in parts, and is there when all of them are."""
CHECKED = ("s3://", "s3a://")


class BucketObjects:
    def __init__(self, url: str, *, timeout: timedelta = TIMEOUT) -> None:
        self._given, self.url = url.rstrip("/"), without_secrets(url.rstrip("/"))
        self._timeout = timeout
        self._opened: tuple[int, Any] | None = None

    def read(self, path: str) -> bytes:
        with self._answering(path) as (obstore, bucket):
            return bytes(obstore.get(bucket, path).bytes())

    def write(self, path: str, content: bytes) -> None:
        with self._answering(path) as (obstore, bucket):
            obstore.put(bucket, path, content)

    def upload(self, path: str, local: Path) -> None:
        with self._answering(path) as (obstore, bucket):
            obstore.put(bucket, path, local, chunk_size=PART_BYTES)

    def download(self, path: str, local: Path) -> None:
        with self._answering(path) as (obstore, bucket), local.open("wb") as file:
            answer = obstore.get(bucket, path)
            for piece in answer.stream(min_chunk_size=PART_BYTES):
                file.write(piece)
            if file.tell() != answer.meta["size"]:
                raise ConnectionError(f"{file.tell()} of {answer.meta['size']} bytes came")

    def copy(self, path: str, new: str) -> None:
        with self._answering(path) as (obstore, bucket):
            obstore.copy(bucket, path, new)

    def tagged(self, path: str) -> Tagged | None:
        try:
            with self._answering(path) as (obstore, bucket):
                answer = obstore.get(bucket, path)
                content = bytes(answer.bytes())
                return Tagged(content, str(answer.meta["e_tag"]))
        except FileNotFoundError:
            return None

    def swap(self, path: str, content: bytes, tag: str | None) -> str:
        mode = "create" if tag is None else {"e_tag": tag}
        with self._answering(path) as (obstore, bucket):
            return str(obstore.put(bucket, path, content, mode=mode, use_multipart=False)["e_tag"])

    def delete(self, paths: Iterable[str]) -> None:
        wanted = list(paths)
        if wanted:
            with self._answering(wanted[0]) as (obstore, bucket):
                obstore.delete(bucket, wanted)

    @contextmanager
    def _answering(self, path: str) -> Iterator[tuple[Any, Any]]:
        obstore = self._library()
        from obstore import exceptions

        try:
            yield obstore, self._bucket()
        except FileNotFoundError:
            raise
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
            raise Overtaken(path) from None
        except exceptions.NotSupportedError:
            raise JobRefused(
                f"{self.url} has no conditional writes, and two drivers of a job could not be kept apart",
                "Keep the state in a bucket of S3, Google Cloud or Azure, or in a folder.",
            ) from None
        except (exceptions.BaseError, OSError) as error:
            raise StateUnavailable(f"{self.url}/{path}", _sentence(error)) from error

    def _bucket(self) -> Any:
        """Of this process: what a parent has opened does not work in its children."""
        if self._opened is None or self._opened[0] != os.getpid():
            from obstore.exceptions import BaseError
            from obstore.store import from_url

            checked: Any = {"checksum_algorithm": "SHA256"} if self._given.startswith(CHECKED) else {}
            client: Any = {"timeout": self._timeout, "connect_timeout": CONNECT_TIMEOUT, "allow_http": True}
            try:
                made = from_url(self._given, client_options=client, retry_config={"max_retries": 0}, **checked)
            except (BaseError, ValueError) as error:
                raise JobRefused(
                    f"state cannot be kept at {self.url}: {_sentence(error)}",
                    "Use s3://BUCKET/PATH, gs://BUCKET/PATH, abfs://CONTAINER@ACCOUNT/PATH, or a folder.",
                ) from None
            self._opened = os.getpid(), made
        return self._opened[1]

    def _library(self) -> Any:
        try:
            import obstore
        except ModuleNotFoundError:
            raise JobRefused(
                f"state at {self.url} needs a package that is not installed (obstore)",
                'Install it with: pip install "headwater[s3]"',
            ) from None
        return obstore

    def list(self, folder: str) -> list[Stored]:
        with self._answering(folder) as (obstore, bucket):
            metas = [one for page in obstore.list(bucket, f"{folder}/") for one in page]
        named = [(str(one["path"]).removeprefix(f"{folder}/"), one) for one in metas]
        return sorted(
            Stored(name, int(one["size"]), int(one["last_modified"].timestamp() * 1000))
            for name, one in named
            if "/" not in name
        )


def _sentence(error: BaseException) -> str:
    """The first line of what the library says, which goes on with its own structures."""
    lines = str(error).strip().splitlines()
    return lines[0].partition(": <?xml")[0].partition(": <html")[0][:400] if lines else type(error).__name__
