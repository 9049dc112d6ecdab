"""Read the file in which a user declares an app."""

import sys
import traceback
from importlib.machinery import SOURCE_SUFFIXES, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType

from headwater.errors import FlowPackageMissing, HeadwaterError, InvalidDeclaration
from headwater.flow.declare.app import App
from headwater.flow.declare.checks.raised import add_place, raised_in
from headwater.flow.declare.checks.source_line import Place
from headwater.flow.sql.reading.source_text import SourceText


class _UncachedSource(SourceFileLoader):
    """Compiles a file each time it is loaded, as Python does with the script that it is given.

    An import would take what it compiled before for fresh as long as the file's size and the second of its change are
    the same: an app that a program edits and runs again at once would be the one from before.
    """

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


def load_app(path: Path, name: str = "") -> App:
    """The app that a Python or SQL file declares; with several, the one that is named."""
    if not path.is_file():
        raise InvalidDeclaration(f"there is no file {path}", "Give the Python or SQL file that declares your app.")
    if path.suffix.lower() == ".sql":
        return _chosen([_of_sql(path)], path, name)
    loader = _UncachedSource(path.stem, str(path.absolute()))
    spec = spec_from_file_location(path.stem, path, loader=loader) if path.suffix in SOURCE_SUFFIXES else None
    if spec is None:
        raise InvalidDeclaration(f"{path} is no Python file")
    module = module_from_spec(spec)
    # Functions of the file are sent to workers, and classes are looked up, by the name of their module.
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        loader.exec_module(module)
    except InvalidDeclaration as error:
        add_place(error)
        raise
    except HeadwaterError:
        raise
    except Exception as error:
        raise FlowPackageMissing.of(error) or _refusal(error, path) from error
    return _chosen([value for value in vars(module).values() if isinstance(value, App)], path, name)


def _of_sql(path: Path) -> App:
    from headwater.flow.sql.declaring import app_of

    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidDeclaration(
            f"{path} is not UTF-8: byte {error.start} is none of it", "Save it as UTF-8."
        ) from None
    return app_of(SourceText(text, Place(str(path), 1), in_python=False), path.stem)


def _chosen(apps: list[App], path: Path, name: str) -> App:
    by_name = {app.name: app for app in apps}
    if name and name not in by_name:
        known = ", ".join(sorted(by_name)) or "none"
        raise InvalidDeclaration(f"{path} declares no app {name}", f"It declares: {known}.")
    if not by_name:
        raise InvalidDeclaration(f"{path} declares no app", 'Begin with app = hw.App("name").')
    if len(by_name) > 1 and not name:
        raise InvalidDeclaration(
            f"{path} declares {len(by_name)} apps: {', '.join(sorted(by_name))}", "Say --app NAME."
        )
    return by_name[name] if name else apps[0]


def needs_session(error: BaseException) -> bool:
    """Did something fail, however deeply wrapped, only because PySpark's columns cannot be made without a session?"""
    if error.__cause__ is not None and needs_session(error.__cause__):
        return True
    if getattr(error, "getCondition", lambda: None)() == "SESSION_OR_CONTEXT_NOT_EXISTS":
        return True
    # Most functions of PySpark say no more than that a context is needed.
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, AssertionError) and bool(frames) and "pyspark" in Path(frames[-1].filename).parts


def _refusal(error: Exception, path: Path) -> InvalidDeclaration:
    found = raised_in(error)
    place = f"{found}: " if found else ""
    if needs_session(error):
        return InvalidDeclaration(
            f"{path} cannot be read: {place}a PySpark column is made before there is a Spark session",
            "Write it as SQL text, or make it inside the function of a view, topic or sink.",
        )
    if isinstance(error, SyntaxError):
        wrong = Place(error.filename or str(path), error.lineno or 0)  # in it, or in a file that it imports
        return InvalidDeclaration(f"{path} cannot be read: {wrong}: {error.msg}")
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return InvalidDeclaration(f"{path} cannot be read: {place}{said}")
