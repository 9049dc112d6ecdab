"""The list of damaged ranges of a partition, kept as `quarantine.json`: readers step over them.

Losing it costs nothing for good: what is damaged is found again when it is read.
"""

from collections.abc import Callable

from headwater.errors import DamagedFile
from headwater.log.segment import Damage
from headwater.log.storage import Read, Storage, read_small_file, write_small_file

NAME = "quarantine.json"


def read_quarantine(
    storage: Storage, directory: str, say: Callable[[str], None] = lambda _: None, *, read: Read = read_small_file
) -> dict[int, list[Damage]]:
    """Damaged ranges by the base offset of their segment; `say` receives reports of damage to the list itself."""
    path = f"{directory}/{NAME}"
    try:
        found = read(storage, path)
        ranges = {int(base): [Damage._make(row) for row in damage] for base, damage in found.content.items()}
    except FileNotFoundError:
        return {}
    except DamagedFile as error:
        say(f"{error.summary}; damaged ranges are found again when they are read")
        return {}
    except (ValueError, TypeError, AttributeError):
        say(f"{path} is not a list of damaged ranges; they are found again when they are read")
        return {}
    for problem in found.problems:
        say(problem)
    return ranges


def write_quarantine(storage: Storage, directory: str, damage: dict[int, list[Damage]]) -> None:
    rows = {str(base): [list(row) for row in ranges] for base, ranges in damage.items() if ranges}
    write_small_file(storage, f"{directory}/{NAME}", rows)


def add_to_quarantine(storage: Storage, directory: str, base_offset: int, damage: Damage) -> None:
    known = read_quarantine(storage, directory)
    known.setdefault(base_offset, []).append(damage)
    write_quarantine(storage, directory, known)
