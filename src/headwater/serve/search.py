"""GET /search/VIEW?q=: rows of a view that have the words, best first."""

from pathlib import Path
from threading import Lock
from typing import Any

from headwater.serve.answers import Asked, Invalid
from headwater.serve.endpoints import Endpoint, text, whole
from headwater.serve.stores import Stores
from headwater.serve.views import POSITION, ROW, VIEW, position_json
from headwater.views.full_text import FullTextIndex, index_folder
from headwater.views.plain import plain
from headwater.views.query import key_query

FOUND_MAX = 200
WORDS = text("q", 'what to search for: words, "a phrase", column:word, -without')
LIMIT = whole("limit", "rows at most", least=1, most=FOUND_MAX, default=20)
FOUND: dict[str, Any] = {
    "type": "object",
    "required": ["view", "position", "rows"],
    "properties": {
        "view": {"type": "string"},
        "position": POSITION,
        "rows": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["score", "row"],
                "properties": {"score": {"type": "number"}, "row": ROW},
            },
        },
    },
}


class Search:
    """Indexes are opened once, and see what was committed last."""

    def __init__(self, data: Path, stores: Stores) -> None:
        self._data, self._stores = data, stores
        self._lock = Lock()
        self._indexes: dict[Path, FullTextIndex] = {}

    def endpoint(self) -> Endpoint:
        return Endpoint(
            "/search/{view}", "Rows that have some words", self.search, FOUND, (VIEW, WORDS, LIMIT),
            (400, 404, 409, 422, 503), tag="views", operation="searchView",
        )  # fmt: skip

    def search(self, asked: Asked) -> object:
        if asked["q"] is None:
            raise Invalid("q is missing; say what to search for")
        kept, name = self._stores.find(asked["view"])
        index = self._index(index_folder(self._data, kept.app, name))
        if not index.exists():
            raise Invalid(
                f"view {asked['view'][:80]!r} cannot be searched; declare it with app.view(search=[...])",
                status=404,
                name="NotSearchable",
            )
        hits = index.search(asked["q"], asked["limit"])
        with self._stores.opened(kept) as store, store.snapshot(name) as snapshot:
            rows = [(hit.score, snapshot.select(key_query(snapshot.shape, name, [hit.key]))) for hit in hits]
            position = position_json(snapshot.mark.position)
        # A row that was deleted since it was indexed is left out.
        found = [{"score": score, "row": plain(row[0])} for score, row in rows if row]
        return {"view": f"{kept.app}.{name}", "position": position, "rows": found}

    def _index(self, folder: Path) -> FullTextIndex:
        with self._lock:
            return self._indexes.setdefault(folder, FullTextIndex(folder))
