"""What a rebuild has replaced, kept until the next rebuild of the view: so there is a way back.

<job>/replaced/<view>/     laid out as the folder of a rebuild that stands at the batch of the swap
    by.json                the rebuild that has replaced it, and the shards of its state
    state/, batches/       as they were; the table is kept by the store
    late.json              which late rows counted for its operators then
    made_from.json         what it was made from; written last: what has none is not whole

To go back is a rebuild that begins there: its code replays what came since, and takes the place of the view at an equal
position. Nothing of it is changed while the view runs on.
"""

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headwater.errors import JobRefused
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.commit.job_identity import Identity
from headwater.flow.deploy.kept_outputs import PLAN
from headwater.flow.deploy.kept_outputs import REPLACED as FOLDER
from headwater.flow.kafka.client import EARLIEST, Client
from headwater.flow.plan.planned_batches import partition_offsets
from headwater.flow.proof.rebuilt_late import FILE as REBUILT
from headwater.flow.proof.rebuilt_late import LATE_BEFORE
from headwater.views.store import ViewStore

MADE_FROM, BY = "made_from.json", "by.json"


class Replaced:
    """Of one view."""

    def __init__(self, folder: JobFolder, view: str) -> None:
        self._job, self._view, self.path = folder, view, folder.path / FOLDER / view

    def same_code(self, made_from: Mapping[str, Any]) -> bool:
        """Is the view made from that already?"""
        return _same((self._job.read(PLAN) or {"outputs": {}})["outputs"].get(self._view), made_from)

    def begin(self, attempt: str, shards: int) -> None:
        """Keep what this attempt replaces, and forget what an earlier one has."""
        said = {"attempt": attempt, "shards": shards}
        if not self.path.exists() or JobFolder(self.path).read(BY) != said:
            shutil.rmtree(self.path, ignore_errors=True)
            JobFolder(self.path).write(BY, said)

    def take(self, operator: str) -> None:
        """The state of an operator, in one step; once done, doing it again does nothing."""
        there, here = self._job.state / operator, self.path / "state" / operator
        if there.exists() and not here.exists():
            here.parent.mkdir(parents=True, exist_ok=True)
            there.rename(here)

    def end(self, batch: int, operators: Iterable[str]) -> None:
        """All of it is there; before the job notes that it is made from other code."""
        kept, record = JobFolder(self.path), self._job.finished(batch)
        before = (self._job.read(PLAN) or {"outputs": {}})["outputs"].get(self._view)
        if kept.read(MADE_FROM) is not None:
            return
        if before is None or record is None:
            self.forget()
            return
        known = self._job.read(REBUILT) or {}
        kept.finish(record)
        kept.write(LATE_BEFORE, {"batch": batch, "notes": {name: known.get(name) for name in operators}})
        kept.write(MADE_FROM, before)

    def forget(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def go_back(
        self, to: Path, made_from: Mapping[str, Any], identity: Identity, store: ViewStore, client: Client
    ) -> None:
        """Put it where a rebuild goes on from; whatever step a crash came after. JobRefused if there is none, or it was
        made from other code."""
        if to.exists() and (to / LATE_BEFORE).exists() and _same(JobFolder(to).read(MADE_FROM), made_from):
            return
        kept = JobFolder(self.path) if (self.path / MADE_FROM).exists() else None
        if kept is None:
            raise JobRefused(
                f"view {self._view} has no version before it to go back to",
                "One is kept from a rebuild to the next. Rebuild the view from the log with --rebuild.",
            )
        if not _same(kept.read(MADE_FROM), made_from):
            why = "it is what this file says already" if self.same_code(made_from) else "this file is other code"
            raise JobRefused(
                f"view {self._view} cannot go back: {why}, and the version before it was not made from that",
                "Run --rollback with the app's file as it was before the rebuild.",
            )
        self._check(kept, identity, client)
        store.take_back(self._view, f"{identity.job_id}/rebuild")
        if store.mark(self._view, shadow=True) is None:
            raise JobRefused(
                f"the rows of the version before view {self._view} are gone", "Rebuild the view with --rebuild."
            )
        shutil.rmtree(to, ignore_errors=True)
        to.parent.mkdir(exist_ok=True)
        self.path.rename(to)
        self._job.sync("")

    def _check(self, kept: JobFolder, identity: Identity, client: Client) -> None:
        """That it can be brought up to date."""
        shards, record = (kept.read(BY) or {}).get("shards"), kept.last_finished()
        if shards != identity.shards:
            raise JobRefused(
                f"the version before view {self._view} has {shards} shards, and the job {identity.shards} by now",
                "Rebuild the view with --rebuild.",
            )
        ends = partition_offsets(record.end) if record else {}
        for place, first in client.offsets(dict.fromkeys(ends, EARLIEST)).items():
            if first > ends[place]:
                raise JobRefused(
                    f"the version before view {self._view} ends at offset {ends[place]} of "
                    f"{place.topic}/{place.partition}, and those up to {first - 1} are deleted",
                    "Keep the topic's records for as long as there shall be a way back.",
                )


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
