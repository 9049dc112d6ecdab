"""A log that holds data never gets a fresh identity: producer ids would be given out a second time."""

import pytest
from crc32c import crc32c

from headwater.errors import DamagedFile
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage, read_small_file
from headwater.log.storage.storage import replace_durably
from tests.log.subjects import FOLDER, Subject


def with_a_producer() -> tuple[Subject, int]:
    """A log that gave out an id, and stored what its producer sent."""
    subject = Subject()
    first = subject.log.next_producer_id()
    subject.put(b"first", producer_id=first, producer_epoch=0, base_sequence=0)
    return subject, first


def lose_identity(subject: Subject) -> None:
    subject.lose("identity.json", folder="")


def test_records_of_a_new_producer_are_stored_after_the_identity_was_lost() -> None:
    for stopped in (True, False):
        subject, first = with_a_producer()
        cluster = subject.log.cluster_id
        if stopped:
            subject.log.close()
        lose_identity(subject)
        subject.kill()
        fresh = subject.log.next_producer_id()
        assert fresh > first
        appended = subject.put(b"second", producer_id=fresh, producer_epoch=0, base_sequence=0)
        assert not appended.duplicate
        assert subject.values() == [b"first", b"second"]
        assert subject.log.cluster_id == cluster
        assert any("identity.json" in problem for problem in subject.log.problems)


def test_a_producer_that_had_an_id_and_sent_nothing_yet_does_not_share_it() -> None:
    subject, _ = with_a_producer()
    silent = [subject.log.next_producer_id() for _ in range(50)]
    lose_identity(subject)
    subject.kill()
    assert subject.log.next_producer_id() > max(silent)


def test_an_identity_exchanged_for_an_older_one_gives_out_no_id_twice() -> None:
    subject, _ = with_a_producer()
    old = [(path, bytes(subject.bytes_of(path))) for path in ("identity.json", "identity.copy")]
    ids = [subject.log.next_producer_id() for _ in range(2_500)]
    subject.put(b"newest", producer_id=ids[-1], producer_epoch=0, base_sequence=0)
    subject.log.close()
    for path, content in old:
        replace_durably(subject.storage, path, content)
    subject.kill()
    assert subject.log.next_producer_id() > ids[-1]
    assert any("identity.json is older" in problem for problem in subject.log.problems)


def test_either_of_identity_and_its_copy_is_enough() -> None:
    for path in ("identity.json", "identity.copy"):
        subject, first = with_a_producer()
        subject.log.close()
        before = read_small_file(subject.storage, "identity.json").content
        subject.storage.delete(path)
        subject.kill()
        assert subject.log.cluster_id == before["cluster_id"]
        assert first < subject.log.next_producer_id() < 10_000, "nothing was lost, so nothing is stepped over"


def test_data_of_an_earlier_release_without_an_identity_is_refused_with_a_sentence() -> None:
    subject, _ = with_a_producer()
    subject.log.close()
    body = b'{"start_offset":0,"recovery_offset":1,"segment":0,"position":75,"producers":[]}'
    subject.storage.delete(f"{FOLDER}/checkpoint.copy")
    replace_durably(subject.storage, f"{FOLDER}/checkpoint", b"%08x\n%s\n" % (crc32c(body), body))
    lose_identity(subject)
    with pytest.raises(DamagedFile, match=r"identity\.json cannot be read: it is missing"):
        subject.kill()


def test_a_folder_without_data_gets_a_fresh_identity() -> None:
    subject = Subject()
    subject.log.delete_topic("t")
    subject.log.close()
    lose_identity(subject)
    subject.kill()
    assert subject.log.problems == []
    assert subject.log.next_producer_id() == 0


def test_folders_of_other_parts_are_no_data_of_the_log() -> None:
    storage = MemoryStorage()
    for folder, name in (("flows", "spark.log"), ("search-1", "index.log"), ("notes", f"{0:020}.log")):
        storage.make_directory(folder)
        replace_durably(storage, f"{folder}/{name}", b"said")
    with Log.open("memory", storage=storage) as log:
        assert log.next_producer_id() == 0


def test_an_id_that_a_client_made_up_does_not_use_up_the_others() -> None:
    subject = Subject()
    subject.put(b"v", producer_id=2**63 - 1, producer_epoch=0, base_sequence=0)
    subject.restart()
    assert subject.log.next_producer_id() < 2**62
