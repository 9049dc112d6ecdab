"""The block `source` of envelopes. Pure."""

from json import dumps

from headwater.capture.change import CapturedTable


class SourceBlock:
    """The block `source` of envelopes, with the names of Debezium's connector."""

    def __init__(self, *, capture: str, version: str) -> None:
        self._fixed = {"version": version, "connector": "mariadb", "name": capture}
        self._for: object = None
        self._tables: dict[CapturedTable, bytes] = {}

    def of(
        self, table: CapturedTable, *, time_ms: int, gtid: str | None, server: int, file: str, position: int, row: int,
        snapshot: str = "false",
    ) -> bytes:  # fmt: skip
        if self._for != (gtid, time_ms, file, snapshot):
            self._for, self._tables = (gtid, time_ms, file, snapshot), {}
        head = self._tables.get(table)
        if head is None:
            block = {
                **self._fixed, "ts_ms": time_ms, "ts_us": time_ms * 1000, "ts_ns": time_ms * 1_000_000,
                "snapshot": snapshot, "db": table.schema, "sequence": None, "table": table.name, "server_id": server,
                "gtid": gtid, "file": file, "thread": None, "query": None,
            }  # fmt: skip
            head = self._tables[table] = dumps(block, ensure_ascii=False, separators=(",", ":")).encode()[:-1]
        return b'%b,"pos":%d,"row":%d}' % (head, position, row)
