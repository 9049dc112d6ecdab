"""Why a request is not taken."""

from collections.abc import Mapping


class Refusal(Exception):
    """Becomes the answer: a status, a sentence that says the way out, and headers beside it."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, dict(headers or {})
