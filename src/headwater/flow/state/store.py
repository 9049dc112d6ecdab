"""The versions of an operator's state, as the driver sees them: begin a batch, commit it, clean up after it.

    begin(b − 1) ──► tasks: lookup, write ──► commit(b, b − 1, runs) ──► clean(keep)

A version is committed when its manifest is durable under its name; nothing before that moment can be seen, and nothing
after it can be lost. The runs it names are durable before (run.py). A batch may be begun again from the same base any
number of times, also after it was committed: the new commit takes the place of the old.

Only one driver may write to a store at a time; the lock of the job sees to that, or the head of its checkpoint.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from headwater.errors import FlowError, StateDamaged, StateMismatch, StateMissing, StateUnavailable
from headwater.flow.state.files import StateFiles, StoredFile, located
from headwater.flow.state.manifest import (
    EMPTY,
    EVERYTHING,
    RUNS,
    VERSIONS,
    Manifest,
    RunInfo,
    Shard,
    Slot,
    StateSchema,
    path_of_version,
    version_of_name,
)
from headwater.flow.state.runs.merge_plan import TASK_BYTES_MAX, MergePlan
from headwater.flow.state.runs.open_runs import OpenedRuns, opened
from headwater.flow.state.runs.run import write_run
from headwater.flow.state.runs.run_union import combined
from headwater.flow.state.shard import ShardState, StateHandle, run_name


class StateStore:
    """`schema`, `shards` and `fingerprint` are for the first version, and must be those of later ones.

    `task_bytes_max` bounds what a task merges on the way; larger merges are left to `merge`.
    """

    def __init__(
        self,
        files: StateFiles | str,
        schema: StateSchema,
        *,
        shards: int,
        fingerprint: str = "",
        task_bytes_max: int = TASK_BYTES_MAX,
    ) -> None:
        self.opened = opened(files) if isinstance(files, str) else OpenedRuns(files)
        self.files = self.opened.files
        self.schema, self.shards, self.fingerprint = schema, shards, fingerprint
        self._task_bytes_max = task_bytes_max
        self._named: dict[int, tuple[StoredFile, frozenset[str]]] = {}

    @property
    def where(self) -> str:
        return self.files.url or "in memory"

    def versions(self) -> list[int]:
        return versions_of(self.files)

    def manifest(self, version: int) -> Manifest:
        """StateMissing if there is no such version, StateDamaged if it cannot be believed."""
        if version == EMPTY:
            return Manifest(EMPTY, EMPTY, self.fingerprint, self.schema, (Shard(),) * self.shards)
        return read_manifest(self.files, version)

    def begin(self, base_version: int, *, reserved: Collection[str] = ()) -> StateHandle:
        """What tasks need to work on a version. They leave reserved runs, which are being merged elsewhere, alone.

        StateMismatch if the version was kept by another operator, or in another number of shards.
        """
        manifest = self.manifest(base_version)
        self._check_fits(manifest)
        runs = tuple(shard.runs for shard in manifest.shards)
        names, limit = tuple(sorted(reserved)), self._task_bytes_max
        return StateHandle(self.files.url, base_version, manifest.token, manifest.schema, runs, names, limit)

    def shard(self, handle: StateHandle, shard: int, slot: Slot = EVERYTHING) -> ShardState:
        """A shard in this process, sharing what the store has opened."""
        return ShardState(handle, shard, self.opened, slot=slot)

    def _check_fits(self, manifest: Manifest) -> None:
        if manifest.fingerprint != self.fingerprint:
            raise StateMismatch(
                self.where, "the operator", kept=repr(manifest.fingerprint), wanted=repr(self.fingerprint)
            )
        if not manifest.schema.same_as(self.schema):
            kept, wanted = (", ".join(f"{f.name} {f.type}" for f in s.rows) for s in (manifest.schema, self.schema))
            raise StateMismatch(self.where, "the columns", kept=f"({kept})", wanted=f"({wanted})")
        if len(manifest.shards) != self.shards:
            way_out = 'Change it with "headwater state reshard" while the job is stopped, or leave it as it was.'
            raise StateMismatch(
                self.where, "a number of shards of", kept=len(manifest.shards), wanted=self.shards, hint=way_out
            )

    def commit(
        self,
        version: int,
        base_version: int,
        added: Iterable[RunInfo],
        *,
        merged: Iterable[RunInfo] = (),
        drop_below: int | None = None,
    ) -> Manifest:
        """Make the runs that tasks wrote from a base the next version, durably, in place of any of that number.

        With `drop_below`, slots that end there or before are no longer part of it. `merged` are runs from `merge`: each
        is adopted if what it replaces is still there, else left to be cleaned. Versions above this one stem from a past
        that no longer holds, and go.
        """
        base = self.manifest(base_version)
        shards = list(base.shards)
        for run in added:
            shards[run.shard] = with_written(shards[run.shard], run, base)
        for run in merged:
            if run.shard < len(shards):  # there may be fewer by now
                shards[run.shard] = with_merged(shards[run.shard], run)
        if drop_below is not None:
            shards = [without_slots(shard, drop_below) for shard in shards]
        manifest = replace(base, version=version, base=base_version, shards=tuple(shards))
        self.publish(manifest)
        return manifest

    def publish(self, manifest: Manifest) -> None:
        self._named.pop(manifest.version, None)
        self.files.replace(path_of_version(manifest.version), manifest.to_bytes())
        above = [path_of_version(version) for version in self.versions() if version > manifest.version]
        if above:
            self.files.delete(above)

    def merge(self, plan: MergePlan, name: str = "") -> RunInfo:
        """Merge runs of a version into one; any thread may, beside running batches. A later commit may adopt it."""
        name = name or run_name(plan.shard)
        rows = self.schema.rows
        runs = [self.opened.run(info, rows) for info in reversed(plan.runs)]
        batches = combined(runs, self.schema, drop_deleted=plan.reaches_oldest)
        info = write_run(self.files, plan.shard, name, rows, batches)
        info = info or RunInfo(plan.shard, "", 0, 0, 0, 0, 0)
        replaces = tuple(run.name for run in plan.runs)
        keys = sum(run.keys for run in plan.runs)
        return replace(info, reaches_oldest=plan.reaches_oldest, replaces=replaces, slot=plan.slot, keys=keys)

    def clean(self, keep_versions: int, *, spare: Collection[str] = ()) -> list[str]:
        """Delete all but the newest versions, then runs that none of those left names; answers what went.

        Keep at least two: the newest may have to be made again from the one before it. A run without a manifest may be
        the work of a task that is still to be committed: it goes only if it is older than the oldest version kept.
        Runs to `spare` are those being merged, or merged and not adopted yet.
        """
        found = [
            (number, file) for file in self.files.times(VERSIONS) if (number := version_of_name(file.name)) is not None
        ]
        listed = dict(sorted(found))
        kept, gone = list(listed)[-max(keep_versions, 1) :], list(listed)[: -max(keep_versions, 1)]
        if not kept:
            return []
        named = self._names_of({version: listed[version] for version in kept}) | set(spare)
        # Manifests first, durably: after a crash a version may lack its file, but never its runs.
        if gone:
            self.files.delete([path_of_version(version) for version in gone])
        oldest_ms = min(listed[version].modified_ms for version in kept)
        leftovers = [
            path
            for file in self.files.list(RUNS)
            if (path := f"{RUNS}/{file.name}") not in named and file.modified_ms < oldest_ms
        ]
        if leftovers:
            self.files.delete(leftovers)
        return leftovers

    def _names_of(self, kept: Mapping[int, StoredFile]) -> set[str]:
        """Runs that versions name. A version stays the same while its file does, and need not be read each time."""
        known = self._named
        self._named = {
            version: known[version]
            if version in known and known[version][0] == file
            else (file, self._runs_of(version))
            for version, file in kept.items()
        }
        return set().union(*(names for _, names in self._named.values()))

    def _runs_of(self, version: int) -> frozenset[str]:
        return frozenset(self.manifest(version).run_names())

    def check(self) -> list[str]:
        """Read every version and every run again; one sentence for each that is damaged or missing."""
        problems, seen = [], set()
        fresh = OpenedRuns(self.files)
        for version in self.versions():
            try:
                manifest = self.manifest(version)
            except (StateDamaged, StateUnavailable) as damage:
                problems.append(str(damage))
                continue
            for run in (run for shard in manifest.shards for run in shard.runs if run.name not in seen):
                seen.add(run.name)
                try:
                    fresh.run(run, manifest.schema.rows)
                except (StateDamaged, StateUnavailable) as damage:
                    problems.append(f"version {version}: {damage}")
        return problems


def versions_of(files: StateFiles) -> list[int]:
    numbers = (version_of_name(file.name) for file in files.list(VERSIONS))
    return sorted(number for number in numbers if number is not None)


def read_manifest(files: StateFiles, version: int) -> Manifest:
    path = path_of_version(version)
    try:
        content = files.read(path)
    except FileNotFoundError:
        raise StateMissing(files.url or "in memory", version, versions_of(files)) from None
    manifest = Manifest.from_bytes(content, located(files, path))
    if manifest.version != version:
        raise StateDamaged(located(files, path), f"it holds version {manifest.version}")
    return manifest


def with_written(shard: Shard, run: RunInfo, base: Manifest) -> Shard:
    """A shard after a task's run; FlowError if the task did not work on the base that is to be committed."""
    mine = shard.of_slot(run.slot)
    replaced = tuple(old.name for old in mine[len(mine) - len(run.replaces) :])
    kept = tuple(old for old in shard.runs if old.name not in run.replaces)
    if run.base != base.token or replaced != run.replaces:
        raise FlowError(
            f"run {run.name} was written from version {run.base}, and version {base.token} is to be continued",
            "Run the batch again from the version that it continues.",
        )
    return Shard(shard.keys + run.keys_change, (*kept, run.settled()) if run.rows else kept)


def with_merged(shard: Shard, run: RunInfo) -> Shard:
    """A shard in which a merged run stands for those it was made from, if they are all still there side by side."""
    names = [old.name for old in shard.of_slot(run.slot)]
    first = names.index(run.replaces[0]) if run.replaces and run.replaces[0] in names else -1
    end = first + len(run.replaces)
    # Deleted keys were left out of a run that reaches the oldest: below an older one they would come back.
    if first < 0 or tuple(names[first:end]) != run.replaces or (run.reaches_oldest and first > 0):
        return shard
    # Between runs of other slots it may lie anywhere; among those of its own it lies where the first of its parts was.
    place = next(place for place, old in enumerate(shard.runs) if old.name == run.replaces[0])
    before, behind = ([old for old in part if old.name not in run.replaces] for part in cut(shard.runs, place))
    return replace(shard, runs=(*before, *((run.settled(),) if run.rows else ()), *behind))


def cut(runs: tuple[RunInfo, ...], place: int) -> tuple[tuple[RunInfo, ...], tuple[RunInfo, ...]]:
    return runs[:place], runs[place:]


def without_slots(shard: Shard, below: int) -> Shard:
    """A shard whose slots that end at a time or before it are gone."""
    gone = [run for run in shard.runs if run.slot != EVERYTHING and run.slot.end <= below]
    kept = tuple(run for run in shard.runs if run not in gone)
    return Shard(shard.keys - sum(run.keys for run in gone), kept) if gone else shard
