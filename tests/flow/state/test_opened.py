from headwater.flow.state import EMPTY
from headwater.flow.state.files import DiskFiles
from headwater.flow.state.runs.open_runs import OpenedRuns, opened
from headwater.log.storage.simulated import Call, SimulatedDisk
from tests.flow.state.subjects import SCHEMA, run_batch, store_on_disk


def test_a_run_is_verified_once_while_it_is_kept_open() -> None:
    disk = SimulatedDisk()
    store = store_on_disk(disk, 1)
    run_batch(store, 0, {1: 10}, EMPTY)
    info = store.manifest(0).shards[0].runs[0]
    runs = OpenedRuns(DiskFiles(disk, "job/state"))
    calls: list[Call] = []
    first = runs.run(info, SCHEMA.rows)
    disk.on_call = calls.append
    assert runs.run(info, SCHEMA.rows) is first
    assert calls == []


def test_no_more_runs_are_kept_open_than_allowed() -> None:
    disk = SimulatedDisk()
    store = store_on_disk(disk, 1, task_bytes_max=0)
    for version in range(3):
        run_batch(store, version, {version: 1}, version - 1 if version else EMPTY)
    infos = store.manifest(2).shards[0].runs
    runs = OpenedRuns(DiskFiles(disk, "job/state"), limit=2)
    kept = [runs.run(info, SCHEMA.rows) for info in infos]
    assert runs.run(infos[2], SCHEMA.rows) is kept[2]
    assert runs.run(infos[0], SCHEMA.rows) is not kept[0]


def test_runs_that_the_last_versions_do_not_name_are_let_go() -> None:
    disk = SimulatedDisk()
    store = store_on_disk(disk, 1)
    run_batch(store, 0, {1: 10}, EMPTY)
    info = store.manifest(0).shards[0].runs[0]
    runs = OpenedRuns(DiskFiles(disk, "job/state"))
    first = runs.run(info, SCHEMA.rows)
    for token, names in (("1", [info.name]), ("2", ["b"]), ("2", ["b"])):
        runs.working_on(token, names)
    assert runs.run(info, SCHEMA.rows) is first
    runs.working_on("3", ["c"])
    assert runs.run(info, SCHEMA.rows) is not first


def test_a_process_opens_a_place_once() -> None:
    assert opened("memory://place") is opened("memory://place")
