"""headwater log: check the files of a data directory that nobody has open."""

import argparse

from headwater.cli.arguments import add_action, add_actions, add_data, add_json
from headwater.cli.failure import Failure
from headwater.cli.output import counted, meter, say, write_json, write_table
from headwater.errors import DataDirectoryLocked
from headwater.log.check import PartitionReport, Report, check_log, log_bytes
from headwater.log.log import IDENTITY
from headwater.log.segment import Damage
from headwater.log.storage import LocalStorage

DAMAGED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    check = add_action(actions, "check", "read everything: checksums, offsets, indexes, quarantine", run_check)
    check.add_argument(
        "--quarantine", action="store_true", help="put damage that is found in quarantine, so that readers step over it"
    )
    add_data(check)
    add_json(check)


def run_check(arguments: argparse.Namespace) -> int:
    report = read(arguments)
    if arguments.json:
        write_json(as_json(report))
    else:
        show(report)
    return 0 if report.sound else DAMAGED


def read(arguments: argparse.Namespace) -> Report:
    if not (arguments.data / IDENTITY).is_file():
        raise Failure(f"{arguments.data} is no data directory. Say where the data is with --data DIR")
    storage = LocalStorage(arguments.data)
    try:
        storage.lock(".lock")
    except BlockingIOError:
        raise DataDirectoryLocked(str(arguments.data), "a running process") from None
    try:
        with meter(log_bytes(storage)) as shown:
            return check_log(
                storage, quarantine=arguments.quarantine, progress=lambda more: shown.advance(more, "reading")
            )
    finally:
        storage.close()


def show(report: Report) -> None:
    if report.partitions:
        columns = ["partition", "segments", "batches", "records", "bytes", "first", "end", "verdict"]
        write_table(columns, [row(partition) for partition in report.partitions])
    for line in findings(report):
        say(line)
    places = counted(len(report.partitions), "partition")
    bad = sum(1 for partition in report.partitions if not partition.sound)
    say(f"{places} checked: {'everything is sound' if report.sound else f'{bad} damaged'}")


def row(partition: PartitionReport) -> list[str | int]:
    return [
        f"{partition.topic}/{partition.partition}",
        partition.segments,
        partition.batches,
        partition.records,
        partition.bytes,
        partition.start_offset,
        partition.end_offset,
        verdict(partition),
    ]


def verdict(partition: PartitionReport) -> str:
    if not partition.sound:
        return "damaged"
    return "sound, with a quarantine" if partition.quarantined else "sound"


def findings(report: Report) -> list[str]:
    lines = []
    for partition in report.partitions:
        name = f"{partition.topic}/{partition.partition}"
        lines += [f"{name}: damaged now: {spelled(damage)}" for damage in partition.damage]
        lines += [f"{name}: in quarantine: {spelled(damage)}" for damage in partition.quarantined]
        lines += [f"{name}: index: {error}" for error in partition.index_errors]
        if partition.unacknowledged_bytes:
            torn = counted(partition.unacknowledged_bytes, "byte")
            lines.append(f"{name}: {torn} at the end were never acknowledged; the next start cuts them off")
    lines += [
        f"{folder}: looks like a partition of a topic that does not exist; left alone" for folder in report.orphans
    ]
    return lines


def spelled(damage: Damage) -> str:
    offsets = f"offsets {damage.first_offset} to {damage.end_offset - 1}"
    return f"{offsets}, bytes {damage.position} to {damage.end_position - 1} of their segment"


def as_json(report: Report) -> dict[str, object]:
    return {
        "sound": report.sound,
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "sound": partition.sound,
                "segments": partition.segments,
                "batches": partition.batches,
                "records": partition.records,
                "bytes": partition.bytes,
                "first": partition.start_offset,
                "end": partition.end_offset,
                "unacknowledged_bytes": partition.unacknowledged_bytes,
                "quarantined": [damage._asdict() for damage in partition.quarantined],
                "damage": [damage._asdict() for damage in partition.damage],
                "index_errors": partition.index_errors,
            }
            for partition in report.partitions
        ],
        "orphans": report.orphans,
    }
