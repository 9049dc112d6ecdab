"""The source of the package, as the rules look at it."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "headwater"


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(file: Path) -> str:
    """How a rule names a file in its complaint."""
    return str(file.relative_to(ROOT))


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def imports_of(file: Path) -> Iterator[tuple[str, int]]:
    """Dotted names that a file imports, with the level of relative ones; imports for type checkers count too."""
    for node in ast.walk(tree_of(file)):
        match node:
            case ast.Import(names=names):
                yield from ((name.name, 0) for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                yield from ((f"{module or ''}.{name.name}", level) for name in names)


def part_of(file: Path) -> str:
    """The part (folder) or single module a file of the package belongs to."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def dotted(node: ast.expr) -> str:
    """`time.sleep` of the expression time.sleep; "" for anything that is not a plain chain of names."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            before = dotted(value)
            return f"{before}.{attribute}" if before else ""
    return ""
