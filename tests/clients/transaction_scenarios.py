"""What a transactional producer may do, right and wrong, as transcripts of error codes. The same on every broker."""

from collections.abc import Callable

from tests.clients.raw_producer import NEW, RawProducer

Transcript = list[str]
Scenario = Callable[[RawProducer], Transcript]


def begun(producer: RawProducer) -> RawProducer:
    """With one record in an open transaction."""
    assert producer.init() == "none"
    if producer.versions is not NEW:
        assert producer.add() == "none"
    assert producer.produce() == "none"
    return producer


def attempts(producer: RawProducer) -> Transcript:
    """Everything that one might try who should not; each as a producer of its own, for an answer may teach it."""
    return [
        f"add {producer.twin().add()}",
        f"produce {producer.twin().produce()}",
        f"add offsets {producer.twin().add_offsets('g')}",
        f"offsets {producer.twin().commit_offsets('g', 1)}",
        f"commit {producer.twin().commit()}",
        f"abort {producer.twin().abort()}",
    ]


def commit(producer: RawProducer) -> Transcript:
    begun(producer)
    return [producer.state(), producer.commit(), producer.state_once_ended(), producer.produce_again()]


def abort(producer: RawProducer) -> Transcript:
    begun(producer)
    return [producer.state(), producer.abort(), producer.state_once_ended(), producer.produce_again()]


def commit_whose_answer_was_lost(producer: RawProducer) -> Transcript:
    same = begun(producer).twin()
    return [producer.commit(), same.twin().commit(), same.twin().abort(), same.twin().produce(b"late")]


def abort_whose_answer_was_lost(producer: RawProducer) -> Transcript:
    same = begun(producer).twin()
    return [producer.abort(), same.twin().abort(), same.twin().commit(), same.twin().produce(b"late")]


def end_of_nothing(producer: RawProducer) -> Transcript:
    producer.init()
    return [producer.twin().commit(), producer.abort(), producer.state_once_ended(), producer.commit()]


def end_of_nothing_after_a_commit(producer: RawProducer) -> Transcript:
    begun(producer).commit()
    producer.state_once_ended()
    return [producer.twin().abort(), producer.state_once_ended(), producer.twin().commit()]


def second_transaction(producer: RawProducer) -> Transcript:
    begun(producer).commit()
    added = [] if producer.versions is NEW else [producer.add()]
    return [*added, producer.produce(), producer.produce_again(), producer.abort(), producer.state_once_ended()]


def replaced_in_a_transaction(producer: RawProducer) -> Transcript:
    other = begun(producer).twin()
    return [other.init(), f"epoch {other.epoch - producer.epoch}", *attempts(producer), other.state()]


def replaced_before_it_began(producer: RawProducer) -> Transcript:
    producer.init()
    other = producer.twin()
    return [other.init(), f"epoch {other.epoch - producer.epoch}", *attempts(producer), other.state()]


def replaced_after_a_commit(producer: RawProducer) -> Transcript:
    begun(producer).commit()
    other = producer.twin()
    return [other.init(), f"epoch {other.epoch - producer.epoch}", *attempts(producer), other.state()]


def replaced_by_one_in_a_transaction(producer: RawProducer) -> Transcript:
    producer.init()
    other = begun(producer.twin())
    return [*attempts(producer), other.state(), other.commit(), other.state_once_ended()]


def an_epoch_that_does_not_exist_yet(producer: RawProducer) -> Transcript:
    begun(producer)
    return attempts(producer.twin(epoch=producer.epoch + 5))


def the_id_of_another_producer(producer: RawProducer) -> Transcript:
    begun(producer)
    return attempts(producer.twin(id=producer.id + 1000))


def a_transactional_id_that_was_not_registered(producer: RawProducer) -> Transcript:
    producer.id, producer.epoch = 77, 0
    return [*attempts(producer), producer.state()]


def a_partition_that_was_not_added(producer: RawProducer) -> Transcript:
    producer.init()
    return [producer.twin(versions={**producer.versions, "produce": 11}).produce()]


def a_batch_without_a_transactional_id(producer: RawProducer) -> Transcript:
    begun(producer)
    return [producer.produce(named=False)]


def a_plain_batch_within_a_transaction(producer: RawProducer) -> Transcript:
    begun(producer)
    return [producer.produce(transactional=False, named=False), producer.commit()]


def a_gap_in_the_sequence(producer: RawProducer) -> Transcript:
    begun(producer)
    producer.sequence += 3
    return [producer.produce()]


def a_sequence_that_does_not_begin_at_0(producer: RawProducer) -> Transcript:
    begun(producer).abort()
    producer.init()
    producer.sequence = 3
    added = [] if producer.versions is NEW else [producer.add()]
    return [*added, producer.produce()]


def a_topic_that_does_not_exist(producer: RawProducer) -> Transcript:
    producer.init()
    return [producer.add("there-is-none"), producer.state()]


def offsets_with_the_transaction(producer: RawProducer) -> Transcript:
    group = begun(producer).transactional_id
    added = [] if producer.versions is NEW else [producer.add_offsets(group)]
    return [*added, producer.commit_offsets(group, 1), producer.commit(), producer.state_once_ended()]


def offsets_alone(producer: RawProducer) -> Transcript:
    producer.init()
    added = [] if producer.versions is NEW else [producer.add_offsets("h")]
    return [*added, producer.commit_offsets("h", 1), producer.state(), producer.abort(), producer.state_once_ended()]


def offsets_that_were_not_added(producer: RawProducer) -> Transcript:
    begun(producer)
    versions = {**producer.versions, "txn_offset_commit": 4}
    return [producer.twin(versions=versions).commit_offsets("never-added", 1)]


def offsets_of_a_member_that_there_is_not(producer: RawProducer) -> Transcript:
    group = begun(producer).transactional_id
    if producer.versions is not NEW:
        producer.add_offsets(group)
    return [
        producer.commit_offsets(group, 1, generation=5, member="somebody"),
        producer.commit_offsets(group, 1, generation=5),
        producer.commit_offsets("", 1),
    ]


def going_on_after_an_error(producer: RawProducer) -> Transcript:
    before = begun(producer).twin()
    said = [producer.init(expected=True), f"epoch {producer.epoch - before.epoch}", producer.state_once_ended()]
    again, stranger = before.twin(), before.twin(id=before.id + 1000)
    said += [f"again {again.init(expected=True)}", f"stranger {stranger.init(expected=True)}"]
    return [*said, *attempts(before)]


def going_on_without_a_transaction(producer: RawProducer) -> Transcript:
    producer.init()
    before = producer.twin()
    said = [producer.init(expected=True), f"epoch {producer.epoch - before.epoch}"]
    again = before.twin()
    said += [again.init(expected=True), f"epoch {again.epoch - before.epoch}"]
    return [*said, before.twin(epoch=before.epoch + 7).init(expected=True)]


def going_on_after_being_replaced(producer: RawProducer) -> Transcript:
    begun(producer).twin().init()
    return [producer.init(expected=True)]


def registering_wrongly(producer: RawProducer) -> Transcript:
    return [
        producer.twin(timeout_ms=0).init(),
        producer.twin(timeout_ms=-1).init(),
        producer.twin(timeout_ms=901_000).init(),
        producer.twin(transactional_id="").init(),
        producer.twin(id=5).init(expected=True),
        producer.twin(epoch=5).init(expected=True),
        producer.twin(id=5, epoch=5).init(expected=True),
    ]


def time_out(producer: RawProducer) -> Transcript:
    producer.timeout_ms = 500
    begun(producer)
    return [producer.state_once_ended(), *attempts(producer)]


def time_out_and_going_on(producer: RawProducer) -> Transcript:
    producer.timeout_ms = 500
    begun(producer).state_once_ended()
    return [producer.init(expected=True), producer.init()]


SCENARIOS: dict[str, Scenario] = {
    one.__name__: one
    for one in (
        commit, abort, commit_whose_answer_was_lost, abort_whose_answer_was_lost, end_of_nothing,
        end_of_nothing_after_a_commit, second_transaction, replaced_in_a_transaction, replaced_before_it_began,
        replaced_after_a_commit, replaced_by_one_in_a_transaction, an_epoch_that_does_not_exist_yet,
        the_id_of_another_producer, a_transactional_id_that_was_not_registered, a_partition_that_was_not_added,
        a_batch_without_a_transactional_id, a_plain_batch_within_a_transaction, a_gap_in_the_sequence,
        a_sequence_that_does_not_begin_at_0, a_topic_that_does_not_exist, offsets_with_the_transaction, offsets_alone,
        offsets_that_were_not_added, offsets_of_a_member_that_there_is_not, going_on_after_an_error,
        going_on_without_a_transaction, going_on_after_being_replaced, registering_wrongly, time_out,
        time_out_and_going_on,
    )
}  # fmt: skip
