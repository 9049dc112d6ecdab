"""Functions of text, in code points as Spark counts them (pure)."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.expressions.evaluated import Evaluated, Values, as_array
from headwater.flow.expressions.tree import Expression

TEXT = pa.string()
PLAIN_SEPARATORS = frozenset(",;:/@#=&%!~ '\"<>") | {"-", "_"}
"""Characters that mean themselves in a regular expression."""


def joined(node: Expression, rows: int, *several: Values) -> Evaluated:
    """concat: null if any part is."""
    return Evaluated(pc.binary_join_element_wise(*several, pa.scalar("", pa.string()), null_handling="emit_null"))


def in_case(node: Expression, rows: int, value: Values) -> Evaluated:
    """upper and lower. What is not ASCII follows Unicode's full rules (ß becomes SS), which Arrow does not."""
    ascii_only = pc.all(pc.string_is_ascii(as_array(value, rows))).as_py()
    if ascii_only is not False:
        return Evaluated(pc.ascii_upper(value) if node.kind == "upper" else pc.ascii_lower(value))
    change: Callable[[str], str] = str.upper if node.kind == "upper" else str.lower
    return Evaluated(each_distinct(as_array(value, rows), change))


def each_distinct(values: pa.Array, change: Callable[[str], str | int], kind: pa.DataType = TEXT) -> pa.Array:
    """Worked out once for each text there is."""
    coded = values.dictionary_encode()
    changed = pa.array([change(one) for one in coded.dictionary.to_pylist()], kind)
    return changed.take(coded.indices)


def trimmed(node: Expression, rows: int, value: Values) -> Evaluated:
    """Blanks alone are taken off, no other white space."""
    function = {"trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}[node.kind]
    return Evaluated(function(value, " "))


def length(node: Expression, rows: int, value: Values) -> Evaluated:
    counted = pc.utf8_length(value) if pa.types.is_string(value.type) else pc.binary_length(value)
    return Evaluated(counted.cast(pa.int32()))


def part_of(node: Expression, rows: int, value: Values) -> Evaluated:
    """substring: counted from 1, from the end if negative; a start before the text's costs length."""
    position, count = node.option("position"), node.option("length")
    if position > 0 or count <= 0:
        start = max(position - 1, 0)
        return Evaluated(pc.utf8_slice_codeunits(value, start, start + max(count, 0)))
    if position == 0:
        return Evaluated(pc.utf8_slice_codeunits(value, 0, count))
    column = as_array(value, rows)
    sizes = pc.fill_null(pc.utf8_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    starts = sizes + position
    ends = np.clip(starts + count, 0, None)
    texts = zip(column.to_pylist(), np.clip(starts, 0, None).tolist(), ends.tolist(), strict=True)
    return Evaluated(pa.array([None if text is None else text[begin:end] for text, begin, end in texts], pa.string()))


def matched(node: Expression, rows: int, value: Values) -> Evaluated:
    """like, startswith, endswith, contains: with a literal."""
    pattern = node.option("pattern")
    if node.kind == "like":
        return Evaluated(pc.match_like(value, pattern))
    function = {"starts_with": pc.starts_with, "ends_with": pc.ends_with, "contains": pc.match_substring}[node.kind]
    return Evaluated(function(value, pattern))


def replaced(node: Expression, rows: int, value: Values) -> Evaluated:
    search, by = node.option("search"), node.option("by")
    return Evaluated(value if search == "" else pc.replace_substring(value, search, by))


def split(node: Expression, rows: int, value: Values) -> Evaluated:
    parts = pc.split_pattern(as_array(value, rows), node.option("separator"))
    return Evaluated(parts.cast(node.type))


def joined_with(node: Expression, rows: int, *several: Values) -> Evaluated:
    """concat_ws with a separator that is a literal: nulls are left out."""
    separator = pa.scalar(node.option("separator"))
    if not several:
        return Evaluated(pa.scalar("", TEXT))
    nothing = pc.is_null(several[0])
    for one in several[1:]:
        nothing = pc.and_(nothing, pc.is_null(one))
    first = pc.if_else(nothing, pa.scalar("", TEXT), several[0])  # Arrow leaves out rows of which all is null
    return Evaluated(pc.binary_join_element_wise(first, *several[1:], separator, null_handling="skip"))


def padded(node: Expression, rows: int, value: Values) -> Evaluated:
    """lpad and rpad, to a literal length; what is longer is cut off."""
    size, pad = max(node.option("length"), 0), str(node.option("pad"))
    cut = pc.utf8_slice_codeunits(value, 0, size)
    if len(pad) == 1:
        return Evaluated((pc.utf8_lpad if node.kind == "lpad" else pc.utf8_rpad)(cut, size, pad))

    def lengthened(text: str) -> str:
        missing = (pad * (int(size) // max(len(pad), 1) + 1))[: size - len(text)]
        return missing + text if node.kind == "lpad" else text + missing

    return Evaluated(each_distinct(as_array(cut, rows), lengthened))


def repeated(node: Expression, rows: int, value: Values) -> Evaluated:
    return Evaluated(pc.binary_repeat(value, max(node.option("times"), 0)))


def reversed_text(node: Expression, rows: int, value: Values) -> Evaluated:
    return Evaluated(pc.utf8_reverse(value))


def place_of(node: Expression, rows: int, value: Values) -> Evaluated:
    """instr and locate of a literal: counted from 1, 0 if it is not there."""
    search, values = node.option("search"), as_array(value, rows)
    if pc.all(pc.string_is_ascii(values)).as_py() is not False:
        return Evaluated(pc.add(pc.find_substring(values, search), pa.scalar(1, pa.int32())))
    return Evaluated(each_distinct(values, lambda text: text.find(search) + 1, pa.int32()))


def exchanged(node: Expression, rows: int, value: Values) -> Evaluated:
    """translate, between literals."""
    by = dict(node.option("by"))
    return Evaluated(each_distinct(as_array(value, rows), lambda text: text.translate(by)))


def before_nth(node: Expression, rows: int, value: Values) -> Evaluated:
    """substring_index with literals: all before the nth separator, or after the nth from the end."""
    separator, count = str(node.option("separator")), int(node.option("count"))

    def part(text: str) -> str:
        if not separator or not count:
            return ""
        if count > 0:
            return separator.join(text.split(separator, count)[:count])
        return separator.join(text.rsplit(separator, -count)[count:])

    return Evaluated(each_distinct(as_array(value, rows), part))
