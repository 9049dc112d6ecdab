"""CREATE at the shell: a statement that goes into the file of an app, once it has been said what that changes.

The file is what the app is: nothing is created that the next start of the app would not know. The shell starts no
process, and ends by saying how a run takes the app over.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from headwater.cli.failure import Failure
from headwater.cli.flows import check, load, remembered
from headwater.cli.shell.topics import TopicQueries

if TYPE_CHECKING:
    from headwater.flow.declare.app import App

Confirm = Callable[[str], bool]


@dataclass(frozen=True)
class Creating:
    """`confirm` asks whether to go on."""

    data: Path | None
    app: str
    """Which, if there are several."""
    spark: TopicQueries
    write: Callable[[str], None]
    confirm: Confirm

    def create(self, statement: str) -> None:
        """InvalidDeclaration names line and column of a mistake; then nothing is written."""
        from headwater.flow.declare.checks.source_line import Place
        from headwater.flow.sql.reading.file_edit import with_statement
        from headwater.flow.sql.reading.source_text import SourceText

        name, file = self._file()
        before = file.read_text(encoding="utf-8")
        edited = with_statement(
            SourceText(before, Place(str(file), 1), in_python=False),
            SourceText(statement, Place("statement", 1), in_python=False),
        )
        rebuilt = self._said_what_changes(name, file, edited.text)
        if not self.confirm(f"write it to {file}?"):
            raise Failure("nothing was written. Answer y, or say --yes, to write it")
        if file.read_text(encoding="utf-8") != before:
            raise Failure(f"{file} was changed meanwhile, and nothing was written. Say the statement again")
        fresh = file.with_name(f"{file.name}.new")
        fresh.write_text(edited.text, encoding="utf-8")
        fresh.chmod(file.stat().st_mode)
        fresh.replace(file)
        asked = "".join(f" --rebuild {one}" for one in rebuilt)
        self.write(f"{edited.name} is in {file}. It is built by: headwater run {file} --take-over{asked}")

    def _file(self) -> tuple[str, Path]:
        """The SQL file of the app."""
        if self.data is None:
            raise Failure("CREATE goes into the file of an app, on the machine of its node: say --data, without --http")
        known = remembered(self.data)
        if self.app and self.app not in known:
            raise Failure(f"no app {self.app} has run here; there are: {', '.join(sorted(known)) or 'none'}")
        files = {name: one.file for name, one in known.items() if self.app in ("", name)}
        written = {name: file for name, file in files.items() if file.suffix.lower() == ".sql" and file.is_file()}
        if not written:
            raise Failure(
                "CREATE goes into the SQL file of an app, and none has run here. Run one: headwater run APP.sql"
            )
        if len(written) > 1:
            raise Failure(f"several apps are in SQL files: {', '.join(sorted(written))}. Say --app NAME")
        return next(iter(written.items()))

    def _said_what_changes(self, name: str, file: Path, text: str) -> list[str]:
        """Says of each output what a run would do, and returns those that it would rebuild."""
        from headwater.errors import HeadwaterError
        from headwater.flow.deploy.code_changes import KEEP, REBUILD

        with TemporaryDirectory(prefix="headwater-create-") as folder:
            candidate = Path(folder) / file.name
            candidate.write_text(text, encoding="utf-8")
            try:
                app = load(argparse.Namespace(file=candidate, app=name, data=self.data))
                check(app)
                verdicts = self._verdicts(app)
            except HeadwaterError as error:
                raise Failure(str(error).replace(str(candidate), str(file))) from None
        for output, (what, why) in verdicts.items():
            self.write(f"{output}: {what or KEEP}{f': {why}' if why else ''}")
        return [output for output, (what, _) in verdicts.items() if what == REBUILD]

    def _verdicts(self, app: "App") -> dict[str, tuple[str, str]]:
        from headwater.flow.plan.preview import preview

        assert self.data is not None
        found = preview(self.spark.session(), app, self.data)
        return {one.name: (one.verdict, one.why) for job in found.jobs for one in job.outputs}
