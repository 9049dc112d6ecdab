"""Regular expressions of Java's that RE2 can be given with the same meaning (pure).

Translated are characters, classes, groups, alternatives, anchors and quantifiers. What the two read differently is
written out for RE2: Java's `.` passes over five line terminators, its `$` matches before the last one, its `\\s` has a
vertical tab. All else is Untranslatable.
"""

import re
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.expressions.evaluated import Evaluated, Values
from headwater.flow.expressions.tree import Expression, Untranslatable

LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r" \t\n\x0B\f\r"}
END = rf"(?:\r\n|[{LINE_ENDS}])?\z"
COUNT = re.compile(r"\{([0-9]{1,3})(,([0-9]{1,3})?)?\}")
PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
WANTED = "wanted"


@dataclass
class _Scan:
    text: str
    offset: int = 0
    written: list[str] = field(default_factory=list)
    before: str = ""
    """What stands before: "", "(", "|", "^", "$", "atom", "group", or "count" for a quantifier."""
    depth: int = 0
    groups: int = 0
    wanted: int = -1
    line_ends: bool = False
    """Can a class match a line terminator?"""
    ends: bool = False
    repeats_group: bool = False
    anchored_group: bool = False
    """Is there ^ within a group, which then is not repeated?"""

    def refuse(self) -> Untranslatable:
        return Untranslatable(f"the regular expression {self.text!r}")

    def add(self, piece: str, before: str, taken: int = 1) -> None:
        self.written.append(piece)
        self.before, self.offset = before, self.offset + taken


def translated(text: str, *, group: int = -1) -> str:
    """The pattern as RE2 reads it; `group`: the one that is called WANTED, 0 for all of the match."""
    scan = _scanned(text, group)
    pattern = "".join(scan.written)
    if group >= 0 and (scan.repeats_group or scan.groups < group or (scan.ends and group == 0)):
        raise scan.refuse()
    pattern = f"(?P<{WANTED}>{pattern})" if group == 0 else pattern
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        raise scan.refuse() from error
    return pattern


def replaceable(text: str) -> str:
    """The pattern for replacing every match. RE2 and Java differ in which empty matches there are."""
    scan = _scanned(text, -1)
    pattern = translated(text)
    empty = pc.match_substring_regex(pa.scalar(""), pattern).as_py()
    if empty or scan.repeats_group or scan.ends:
        raise scan.refuse()
    return pattern


def _scanned(text: str, group: int) -> _Scan:
    scan = _Scan(text, wanted=group)
    while scan.offset < len(text):
        _one(scan, text[scan.offset])
    if scan.depth or (scan.ends and scan.line_ends):  # Java's $ does not match between \r and \n
        raise scan.refuse()
    return scan


def _one(scan: _Scan, sign: str) -> None:
    match sign:
        case "\\":
            _escaped(scan)
        case "[":
            _class(scan)
        case "(":
            _opened(scan)
        case ")" if scan.depth and scan.before != "$":
            scan.depth -= 1
            scan.add(")", "group")
        case ".":
            scan.add(f"[^{LINE_ENDS}]", "atom")
        case "|":
            scan.add("|", "|")
        case "^" if scan.before in ("", "|") or (scan.depth and scan.before == "("):
            scan.anchored_group = scan.anchored_group or scan.depth > 0
            scan.add(r"\A", "^")
        case "$" if scan.depth == 0 and scan.text[scan.offset + 1 : scan.offset + 2] in ("", "|"):
            scan.ends = True
            scan.add(END, "$")
        case "*" | "+" | "?" | "{":
            _counted(scan)
        case _ if _stands_for_itself(sign):
            scan.add(_quoted(sign), "atom")
        case _:
            raise scan.refuse()


def _stands_for_itself(sign: str) -> bool:
    return sign == " " or (sign.isprintable() and sign not in "\\[](){}.|^$*+?")


def _quoted(sign: str) -> str:
    return f"\\{sign}" if sign in PUNCTUATION else sign


def _escaped(scan: _Scan) -> None:
    sign = scan.text[scan.offset + 1 : scan.offset + 2]
    if sign and sign in PUNCTUATION:
        scan.add(f"\\{sign}", "atom", 2)
    elif sign and sign.lower() in CLASSES:
        scan.line_ends = scan.line_ends or sign not in ("d", "w")
        scan.add(f"[{'^' if sign.isupper() else ''}{CLASSES[sign.lower()]}]", "atom", 2)
    else:
        raise scan.refuse()


def _class(scan: _Scan) -> None:
    found = re.compile(r"\[(\^?)((?:\\.|[^\\\[\]^])+)\]").match(scan.text, scan.offset)
    if found is None or "&&" in found[2]:  # an intersection, to Java
        raise scan.refuse()
    members = re.findall(r"\\.|.", found[2], re.DOTALL)
    written, offset = [], 0
    while offset < len(members):
        one = members[offset]
        if offset + 2 < len(members) and members[offset + 1] == "-":
            last = members[offset + 2]
            if not (len(one) == len(last) == 1 and one.isalnum() and last.isalnum() and one <= last):
                raise scan.refuse()
            written.append(f"{one}-{last}")
            offset += 3
        else:
            written.append(_member(scan, one))
            offset += 1
    scan.line_ends = scan.line_ends or bool(found[1])
    scan.add(f"[{found[1]}{''.join(written)}]", "atom", len(found[0]))


def _member(scan: _Scan, one: str) -> str:
    sign = one[-1]
    if len(one) == 2 and sign in CLASSES:
        scan.line_ends = scan.line_ends or sign == "s"
        return CLASSES[sign]
    if (len(one) == 2 and sign not in PUNCTUATION) or not sign.isprintable():
        raise scan.refuse()
    return _quoted(sign)


def _opened(scan: _Scan) -> None:
    scan.depth += 1
    if scan.text.startswith("(?:", scan.offset):
        scan.add("(?:", "(", 3)
    elif scan.text.startswith("(?", scan.offset):
        raise scan.refuse()
    else:
        scan.groups += 1
        scan.add(f"(?P<{WANTED}>" if scan.groups == scan.wanted else "(?:", "(")


def _counted(scan: _Scan) -> None:
    found = COUNT.match(scan.text, scan.offset)
    if scan.before not in ("atom", "group") or (scan.text[scan.offset] == "{" and found is None):
        raise scan.refuse()
    if found is not None and found[3] is not None and int(found[3]) < int(found[1]):
        raise scan.refuse()
    piece = scan.text[scan.offset] if found is None else found[0]
    after = scan.text[scan.offset + len(piece) : scan.offset + len(piece) + 1]
    if after == "+":  # possessive
        raise scan.refuse()
    if scan.before == "group" and scan.anchored_group:
        raise scan.refuse()
    scan.repeats_group = scan.repeats_group or (scan.before == "group" and piece != "?")
    lazy = "?" if after == "?" else ""
    scan.add(piece + lazy, "count", len(piece) + len(lazy))


def matched(node: Expression, rows: int, value: Values) -> Evaluated:
    """rlike, with a literal."""
    return Evaluated(pc.match_substring_regex(value, node.option("pattern")))


def extracted(node: Expression, rows: int, value: Values) -> Evaluated:
    """regexp_extract: empty without a match."""
    found = pc.struct_field(pc.extract_regex(value, node.option("pattern")), WANTED)
    return Evaluated(pc.if_else(pc.is_valid(value), pc.fill_null(found, ""), pa.scalar(None, pa.string())))


def replaced(node: Expression, rows: int, value: Values) -> Evaluated:
    """regexp_replace of every match."""
    return Evaluated(pc.replace_substring_regex(value, node.option("pattern"), node.option("by")))
