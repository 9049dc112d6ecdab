"""A power cut while a job works: what the disk holds at that moment is all there is afterwards.

Everything lies in one ext4 image but the views of one database: that is another machine, and knows all it was emitted.
"""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash.disk_image import let_go, made_image, mount
from tests.crash.flow.bounds import STAGED
from tests.crash.flow.killing import Killing
from tests.crash.flow.moments import TIMES
from tests.crash.flow.round_schedule import Round, Strike

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

IMAGE_BYTES = 384 * 1024**2
CUTS: tuple[Round, ...] = (
    Round([Strike("batch noted", 2)]),
    Round([Strike("topic written", 2)], [STAGED]),
    Round([Strike("state published", 2)]),
    Round([Strike("rebuild noted")]),
    Round([Strike("view swapped")]),
    Round([Strike("batch processed")]),
    Round([Strike("planned", 2)]),
    Round([Strike("state renumbered")]),
    Round([Strike("old state removed")]),
    Round([Strike("state moved")]),
    Round([Strike("shadow removed", 2)]),
    Round([Strike("rebuild carried out")]),
    Round([Strike("file staged, driver")], [STAGED]),
    Round([Strike("file about to be renamed")], [STAGED]),
    Round([Strike("file renamed", 2)], [STAGED]),
    Round([Strike("partition encoded, driver")], [STAGED]),
    Round([Strike("topic sent", 2)], [STAGED]),
    Round([Strike("all sinks written")], [STAGED]),
    Round([Strike("state about to be published", 2)], [STAGED], TIMES),
)
ONE_CUT = (replace(CUTS[1], without_spark=True),)
"""What is on the disk when the power is cut, and what is made of it, does not depend on Spark."""


class Disk:
    """An image at a place; a power cut puts a copy of what was really in it there."""

    def __init__(self, image: Path, place: Path) -> None:
        self._image, self.place = image, place
        mount(image, place)

    def cut(self) -> None:
        after = self._image.with_name(f"after-{self._image.name}")
        shutil.copyfile(self._image, after)
        let_go(self.place)
        self._image = after
        mount(after, self.place)

    def close(self) -> None:
        let_go(self.place)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(made_image(tmp_path / "disk.img", size=IMAGE_BYTES), tmp_path / "disk")
    yield disk
    disk.close()


def lives_through(killing: Killing, disk: Disk, cuts: tuple[Round, ...]) -> list[str]:
    try:
        killing.begin()
        for cut in cuts:
            killing.round(cut)
            killing.lose_power(disk.cut)
        killing.finish()
    finally:
        killing.end()
    # The log goes with the disk.
    said = (disk.place / "run" / "driver.log").read_text(errors="replace")
    return [*killing.outcome.anomalies, said[-2000:]] if killing.outcome.anomalies else []


@pytest.mark.parametrize("cuts", [ONE_CUT, pytest.param(CUTS, marks=pytest.mark.torture)], ids=["one", "all"])
def test_a_job_whose_power_is_cut_again_and_again_writes_each_row_once(
    disk: Disk, tmp_path: Path, cuts: tuple[Round, ...]
) -> None:
    # The oracle looks at every view; how all of them are proved is for the long form, and for verify's own tests.
    proved = () if len(cuts) == 1 else None
    killing = Killing(disk.place / "run", 1, f"sqlite:///{tmp_path / 'other.sqlite'}", ahead=False, proved=proved)
    assert lives_through(killing, disk, cuts) == []
    assert sorted(killing.outcome.kills) == sorted(cut.strikes[0].name for cut in cuts)


@pytest.mark.torture
def test_a_job_that_does_not_sync_what_it_notes_is_found_out(disk: Disk, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'other.sqlite'}"
    killing = Killing(disk.place / "run", 1, store, ahead=False, forgetful=True)
    assert lives_through(killing, disk, CUTS[:1]) != []
