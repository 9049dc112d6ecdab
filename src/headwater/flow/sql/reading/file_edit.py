"""A statement that is put into the text of an app's file (pure)."""

from typing import NamedTuple

from headwater.flow.sql.reading.dialect import tokens_of
from headwater.flow.sql.reading.grammar import divided, parse_script
from headwater.flow.sql.reading.source_text import SourceText
from headwater.flow.sql.reading.statements import FlowStatement, SelectStatement


class Edited(NamedTuple):
    text: str
    name: str
    """What the statement declares."""


def with_statement(source: SourceText, statement: SourceText) -> Edited:
    """At the end, or, with OR REPLACE, where the statement stands that declares the name. InvalidDeclaration if it is
    declared already, or the statement declares nothing.

    >>> from dataclasses import replace
    >>> from headwater.flow.declare.checks.source_line import Place
    >>> file = SourceText("CREATE VIEW a AS SELECT 1;", Place("a.sql", 1), in_python=False)
    >>> with_statement(file, replace(file, text="CREATE OR REPLACE VIEW a AS SELECT 2")).text
    'CREATE VIEW a AS SELECT 2;'
    >>> with_statement(file, replace(file, text="CREATE VIEW b AS SELECT 2")).text
    'CREATE VIEW a AS SELECT 1;\\n\\nCREATE VIEW b AS SELECT 2;\\n'
    """
    (declared,) = parse_script(statement)
    if isinstance(declared, SelectStatement) or not declared.name:
        raise statement.refusal(0, "the statement declares nothing that has a name", "Write CREATE … NAME.")
    words = tokens_of(statement)
    text = statement.text.strip().rstrip(";").rstrip()
    replaces = words[1].text.upper() == "OR" and words[2].text.upper() == "REPLACE"
    if replaces:
        text = f"{words[0].text} {statement.text[words[3].start :].strip().rstrip(';').rstrip()}"
    for tokens, one in zip(divided(tokens_of(source)), parse_script(source), strict=True):
        if one.name.lower() != declared.name.lower() or isinstance(one, FlowStatement):
            continue
        if not replaces:
            raise statement.refusal(
                declared.start, f"{one.name} is declared already, at {source.place_at(one.start)}",
                "CREATE OR REPLACE replaces it.",
            )  # fmt: skip
        return Edited(source.text[: tokens[0].start] + text + source.text[tokens[-1].end + 1 :], declared.name)
    before = source.text.rstrip()
    ended = before if not before or before.endswith(";") else f"{before}\n;"
    return Edited(f"{ended}\n\n{text};\n".lstrip(), declared.name)
