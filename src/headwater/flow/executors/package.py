"""headwater and the modules of an app as one archive, which Spark unpacks on every executor.

    headwater-package.tar.gz
    ├── headwater/...        this package, with the machine code that numba has compiled for it
    └── shop.py, ...         the file of the app, and modules beside it that it has imported

Executors run exactly the code of the driver, whatever is installed there. Libraries are not sent: they are the affair
of the executors' Python. Times of files are kept to the nanosecond, because numba compares them.
"""

import os
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import headwater

NAME = "headwater-package"
ARCHIVE = f"{NAME}.tar.gz"
ARCHIVES, PYTHON_PATH = "spark.archives", "spark.executorEnv.PYTHONPATH"
COMPILED = (".nbi", ".nbc")
LEFT_OUT = (".pyc", ".pyo")


def package_settings(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Settings that bring the archive in a folder to executors, beside what the user sends there.

    >>> package_settings(Path("/tmp"), {"spark.archives": "env.tar.gz#env"})["spark.archives"]
    'env.tar.gz#env,file:///tmp/headwater-package.tar.gz#headwater-package'
    """
    archives = [settings.get(ARCHIVES, ""), f"{(folder / ARCHIVE).as_uri()}#{NAME}"]
    path = [NAME, settings.get(PYTHON_PATH, "")]
    return {ARCHIVES: ",".join(filter(None, archives)), PYTHON_PATH: ":".join(filter(None, path))}


def planning_environment(app: Path | None) -> dict[str, str]:
    """For Python that Spark starts beside the driver, to plan what executors read: the same modules, where they are."""
    folders = [str(Path(headwater.__file__).parent.parent), *([] if app is None else [str(app.resolve().parent)])]
    return {"PYTHONPATH": os.pathsep.join(filter(None, [*folders, os.environ.get("PYTHONPATH", "")]))}


def write_package(folder: Path, app: Path | None) -> Path:
    """The archive in a folder; `app` is the file that declares the app, after it was loaded."""
    target = folder / ARCHIVE
    root = Path(headwater.__file__).parent
    with tarfile.open(target, "w:gz", format=tarfile.PAX_FORMAT, compresslevel=1) as archive:
        for file in package_files(root):
            _add(archive, file, f"headwater/{file.relative_to(root)}")
        if app is not None:
            for file in app_modules(app.resolve(), dict(sys.modules), root):
                _add(archive, file, str(file.relative_to(app.resolve().parent)))
    return target


def package_files(root: Path) -> Iterator[Path]:
    """The files of a package, without what Python makes of them by itself."""
    for file in sorted(root.rglob("*")):
        if file.is_file() and file.suffix not in LEFT_OUT:
            yield file


def app_modules(app: Path, modules: Mapping[str, ModuleType | None], own: Path) -> list[Path]:
    """The app's file and the modules that it has imported from its own folder; not those of packages that are
    installed below it, as in a folder with an environment in it, nor ours."""
    folder, found = app.parent, set()
    for name, module in modules.items():
        said = getattr(module, "__file__", None)
        if not said:
            continue
        file = Path(said).resolve()
        parts = (*name.split("."), "__init__") if file.name == "__init__.py" else tuple(name.split("."))
        if file == folder.joinpath(*parts).with_suffix(".py") and not file.is_relative_to(own):
            found.add(file)
    if app.suffix == ".py":
        found.add(app)
    return sorted(found)


def _add(archive: tarfile.TarFile, file: Path, name: str) -> None:
    try:
        with file.open("rb") as content:
            info = archive.gettarinfo(arcname=name, fileobj=content)
            seconds, nanoseconds = divmod(file.stat().st_mtime_ns, 10**9)
            info.pax_headers = {"mtime": f"{seconds}.{nanoseconds:09}"}
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            archive.addfile(info, content)
    except FileNotFoundError:  # numba has just replaced it
        return
