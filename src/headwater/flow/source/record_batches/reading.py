"""The batches of one range: from the files of our own log where they are at hand, over the network otherwise."""

from collections.abc import Iterator
from pathlib import Path

from headwater.errors import DamagedRange, OffsetOutOfRange
from headwater.flow.kafka.client import Client
from headwater.flow.source.batch_plan.admission import Loss
from headwater.flow.source.reach import Reach
from headwater.flow.source.record_batches.files import CHUNK_BYTES, Chunk, partition_directory, quarantined, read_files
from headwater.flow.source.record_batches.transactions import without_aborted
from headwater.flow.source.splitting import Range
from headwater.log.batch_table import find_batches

IN_APPS = '(in an app: hw.App(..., on_loss="account")).'
EMPTY_ANSWERS_MAX = 3
WAIT_MS = 500


def read_range(
    one: Range, reach: Reach, *, data: Path | None, account_losses: bool, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Chunk | Loss]:
    """Every batch of the range in order, and what is lost of it: removed by retention, or damaged.

    If losses are not to be accounted, the first is an error: OffsetOutOfRange or DamagedRange.
    """
    place = there_from = one.first
    directory = None if data is None else partition_directory(data, one.topic, one.partition)
    while place < one.end:
        if directory is not None:
            for chunk in read_files(directory, place, one.end, chunk_bytes=chunk_bytes):
                yield chunk
                place = chunk.next_offset
        if place < one.end:
            # Not in the files, or between two of them: the node knows, and the files may go on behind it.
            found = _fetch_or_loss(one, place, reach, account_losses=account_losses, bytes_max=chunk_bytes)
            yield found
            place = found.end if isinstance(found, Loss) else found.next_offset
            there_from = place if isinstance(found, Loss) else there_from
    if directory is not None:
        # Last: reading is what finds damage. Readers step over it, as over what compaction left.
        yield from _damaged(one._replace(first=there_from), directory, account_losses=account_losses)


def _damaged(one: Range, directory: Path, *, account_losses: bool) -> Iterator[Loss]:
    for first, end in quarantined(directory):
        loss = Loss(max(first, one.first), min(end, one.end))
        if loss.first >= loss.end:
            continue
        if not account_losses:
            error = DamagedRange(one.topic, one.partition, first=loss.first, end=loss.end)
            error.hint = (
                '"headwater log check" reports the damage; to go on after it, set onLoss to "account" ' + IN_APPS
            )
            raise error
        yield loss


def _fetch_or_loss(one: Range, place: int, reach: Reach, *, account_losses: bool, bytes_max: int) -> Chunk | Loss:
    try:
        return reach.ask(lambda client: _fetch(client, one, place, bytes_max))
    except OffsetOutOfRange as error:
        return loss_behind(error, one, place, account_losses=account_losses)


def loss_behind(error: OffsetOutOfRange, one: Range, place: int, *, account_losses: bool) -> Loss:
    """What is missing of a range; raises if the log ends before it, or if losses are not accepted."""
    if error.first <= place:
        error.hint = "The log ends before it: was the topic deleted and made again? Then start with a new checkpoint."
        raise error
    if not account_losses:
        error.hint = (
            f"Rows {place} to {min(error.first, one.end) - 1} were removed before they were read. Raise the topic's "
            'retention; to go on without them, set onLoss to "account" ' + IN_APPS
        )
        raise error
    return Loss(place, min(error.first, one.end))


def _fetch(client: Client, one: Range, place: int, bytes_max: int) -> Chunk:
    for _ in range(EMPTY_ANSWERS_MAX):
        fetched = client.fetch(one.place, place, bytes_max=bytes_max, wait_ms=WAIT_MS)
        table = find_batches(fetched.records)
        if table.next_offset > place:
            data = fetched.records[: table.length]
            if fetched.aborted:
                data = without_aborted(data, table, fetched.aborted)
            return Chunk(place, min(table.next_offset, one.end), data)
    if fetched.high_watermark >= one.end:
        return Chunk(place, one.end, b"")  # compaction has left nothing here
    raise OffsetOutOfRange(one.topic, one.partition, place, first=fetched.start_offset, end=fetched.high_watermark)
