"""Whose checkpoint it is. A job's folder belongs to one app, one job, one log, and lies where it was made."""

import uuid
from dataclasses import asdict, dataclass

from headwater.errors import JobRefused
from headwater.flow.commit.job_folder import JobFolder
from headwater.small_file import copy_path

FILE = "identity.json"


@dataclass(frozen=True)
class Identity:
    app: str
    job: str
    cluster: str
    number: str
    shards: int
    place: str

    @property
    def job_id(self) -> str:
        """Under this name sinks know the job; a folder that is made again is another job."""
        return f"{self.app}/{self.job}/{self.number}"


def identify(folder: JobFolder, *, app: str, job: str, cluster: str, shards: int) -> Identity:
    """The identity in a folder, or a new one if the folder is empty. JobRefused if it is another's."""
    row = folder.read(FILE)
    place = folder.place
    if row is None:
        if folder.plans() or folder.last_finished() is not None:
            raise JobRefused(
                f"{folder.path} holds a checkpoint without its {FILE}", "Restore the file, or remove the folder."
            )
        fresh = Identity(app, job, cluster, uuid.uuid4().hex, shards, place)
        folder.write(FILE, asdict(fresh))
        return fresh
    found = Identity(**row)
    if (found.app, found.job) != (app, job):
        raise JobRefused(
            f"{folder.path} belongs to job {found.job} of app {found.app}, not to {job} of {app}",
            "Give the app another data directory.",
        )
    if found.cluster != cluster:
        raise JobRefused(
            f"{folder.path} was made with log {found.cluster}, this is log {cluster}: its offsets mean nothing here",
            "Use the data directory it belongs to, or remove the folder and let the views be rebuilt.",
        )
    if found.place != place:
        raise JobRefused(
            f"{folder.path} was copied or moved from {found.place}: two jobs must not share one checkpoint",
            f'If the original is gone for good, write {FILE} as plain JSON, with {place} as its "place", and remove '
            f"{copy_path(FILE)} beside it.",
        )
    return found
