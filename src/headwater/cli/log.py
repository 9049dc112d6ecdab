"""headwater log: check the files of a data directory that no node has open."""

import argparse
from collections.abc import Sequence

from headwater.cli.arguments import add_action, add_actions, add_data, add_json
from headwater.cli.data_check import problems
from headwater.cli.failure import Failure
from headwater.cli.output import counted, meter, say, write_json, write_table
from headwater.errors import DataDirectoryLocked
from headwater.log.check import PartitionReport, Report, check_log, log_bytes
from headwater.log.identity import IDENTITY
from headwater.log.segment import Damage
from headwater.log.storage import LocalStorage
from headwater.log.topic import DIRECTORY as TOPICS

DAMAGED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    check = add_action(actions, "check", "read everything: checksums, offsets, indexes, quarantine", run_check)
    check.add_argument(
        "--quarantine", action="store_true", help="quarantine the damage that is found, so that readers skip it"
    )
    add_data(check)
    add_json(check)


def run_check(arguments: argparse.Namespace) -> int:
    report = read(arguments)
    others = problems(arguments.data)
    if arguments.json:
        write_json({**as_json(report), "sound": report.sound and not others, "problems": [*report.problems, *others]})
    else:
        show(report, others)
    return DAMAGED if others or not report.sound else 0


def read(arguments: argparse.Namespace) -> Report:
    if not (arguments.data / IDENTITY).is_file() and not (arguments.data / TOPICS).is_dir():
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


def show(report: Report, others: Sequence[str] = ()) -> None:
    """`others` are what is damaged beside the log."""
    if report.partitions:
        columns = ["partition", "segments", "batches", "records", "bytes", "first", "end", "verdict"]
        write_table(columns, [row(partition) for partition in report.partitions])
    for line in [*findings(report), *others]:
        say(line)
    partitions = counted(len(report.partitions), "partition")
    bad = [f"{sum(1 for partition in report.partitions if not partition.sound)} damaged"] if not report.sound else []
    bad += [f"{counted(len(report.problems), 'problem')} of the log itself"] if report.problems else []
    bad += [f"{counted(len(others), 'problem')} beside the log"] if others else []
    unread = sum(partition.unread_archived for partition in report.partitions)
    but = f", but for {counted(unread, 'archived segment')} that could not be read" if unread else ""
    say(f"{partitions} checked: {', and '.join(bad) or 'everything is sound'}{but}")


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
    lines = list(report.problems)
    for partition in report.partitions:
        name = f"{partition.topic}/{partition.partition}"
        lines += [f"{name}: damaged now: {spelled(damage)}" for damage in partition.damage]
        lines += [f"{name}: in quarantine: {spelled(damage)}" for damage in partition.quarantined]
        lines += [f"{name}: {gap}" for gap in partition.gaps]
        lines += [f"{name}: index: {error}" for error in partition.index_errors]
        lines += [f"{name}: {problem}" for problem in partition.problems]
        if partition.unread_archived:
            some = counted(partition.unread_archived, "archived segment")
            lines.append(f"{name}: {some} not read: they are not in the folder archive beside the log")
        if partition.unacknowledged_bytes:
            torn = counted(partition.unacknowledged_bytes, "byte")
            lines.append(f"{name}: {torn} at the end were never acknowledged; the next start cuts them off")
    lines += [
        f"{folder}: looks like a partition of a topic that does not exist; left alone" for folder in report.orphans
    ]
    return lines


def spelled(damage: Damage) -> str:
    offsets = f"offsets {damage.first_offset} to {damage.end_offset - 1}"
    if damage.position == damage.end_position:
        return f"{offsets}, which were cut off at byte {damage.position} of their segment"
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
                "unread_archived": partition.unread_archived,
                "quarantined": [damage._asdict() for damage in partition.quarantined],
                "damage": [damage._asdict() for damage in partition.damage],
                "gaps": [gap._asdict() for gap in partition.gaps],
                "index_errors": partition.index_errors,
                "problems": partition.problems,
            }
            for partition in report.partitions
        ],
        "problems": report.problems,
        "orphans": report.orphans,
    }
