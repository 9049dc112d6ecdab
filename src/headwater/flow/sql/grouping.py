"""GROUP BY, HAVING and aggregates: keys and aggregates as columns, and what is computed of them after it (pure)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headwater.flow.declare.aggregates import distinct, exact_percentile, percentile
from headwater.flow.declare.duration import spelled
from headwater.flow.declare.stream import Grouped, Stream, Table
from headwater.flow.declare.topology.nodes import Expression
from headwater.flow.declare.windows import EVENT, PROCESSING
from headwater.flow.operators.aggregation.kinds.registry import FUNCTIONS, REPLACED
from headwater.flow.operators.windows.kinds.hopping import hopping
from headwater.flow.operators.windows.kinds.session import session
from headwater.flow.operators.windows.kinds.tumbling import tumbling
from headwater.flow.operators.windows.step import END, START
from headwater.flow.sql.from_items import check_event_time
from headwater.flow.sql.intervals import interval_us, is_now
from headwater.flow.sql.reading.dialect import written
from headwater.flow.sql.reading.exact_percentiles import exact_of
from headwater.flow.sql.reading.grouping_sets import GROUPING_ID, GroupingSets, sets_of
from headwater.flow.sql.reading.source_text import start_of
from headwater.flow.sql.relations import Flow, Rows, as_column, flat_tree, fresh, transformed

AGGREGATES = frozenset(FUNCTIONS) | frozenset(REPLACED) | frozenset({
    "count", "sum", "avg", "mean", "min", "max", "count_if", "first", "first_value", "last", "last_value", "any_value",
    "collect_list", "array_agg", "collect_set", "min_by", "max_by", "bool_and", "bool_or", "every", "some", "any",
    "stddev", "std", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop", "corr", "covar_pop", "covar_samp",
    "mode", "median", "percentile", "percentile_approx", "approx_percentile", "percentile_cont", "percentile_disc",
    "approx_count_distinct", "listagg", "string_agg", "kurtosis", "skewness", "product", "try_sum", "try_avg",
    "bit_and", "bit_or", "bit_xor", "grouping", "grouping_id", "histogram_numeric", "regr_slope", "regr_count",
})  # fmt: skip
CUT = ("window", "session_window")
"""Functions of Spark that cut time into windows."""
PARTS = {("window_start",): START, ("window_end",): END, ("window", "start"): START, ("window", "end"): END}
PARTS |= {("session_window", "start"): START, ("session_window", "end"): END}
NOT_READ = ("all", "totals")
OF_SETS = ("grouping", "grouping_id")
Rewrite = Callable[[exp.Expr], exp.Expr]


@dataclass(frozen=True)
class Stage:
    """Rows that items of SELECT are computed from, and how an expression names their columns."""

    flow: Flow
    rewrite: Rewrite
    taken: frozenset[str]
    """Names of the frame, in small letters."""
    one_row: bool = False
    windowed: bool = False
    unique: tuple[str, ...] = ()
    """Columns that distinguish the rows beside those of the table's key."""

    def text(self, node: exp.Expr) -> str:
        return written(self.rewrite(node))


@dataclass
class _Names:
    """Names of keys and aggregates, by the text that they are computed with."""

    keys: dict[str, str] = field(default_factory=dict)
    aggregates: dict[str, str] = field(default_factory=dict)

    @property
    def all(self) -> dict[str, str]:
        return {**self.keys, **self.aggregates}


def is_aggregate(node: exp.Expr) -> bool:
    """Whether it is a call of an aggregate, perhaps with FILTER."""
    inner = node
    while isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        inner = inner.this
    if isinstance(inner, exp.Any):
        return not isinstance(inner.this, exp.Query | exp.Subquery)
    return isinstance(inner, exp.Anonymous) and str(inner.this).lower() in AGGREGATES


def aggregates_in(node: exp.Expr) -> list[exp.Expr]:
    """Calls of aggregates, but for those over a window, and of queries within."""
    if isinstance(node, exp.Query):
        return []
    if isinstance(node, exp.Window):
        inner = [*node.args.get("partition_by", ()), *([node.args["order"]] if node.args.get("order") else [])]
        return [found for one in [*node.this.iter_expressions(), *inner] for found in aggregates_in(one)]
    if is_aggregate(node):
        return [node]
    return [found for one in node.iter_expressions() for found in aggregates_in(one)]


def is_grouped(select: exp.Select) -> bool:
    given = [*select.expressions, *(select.args[name] for name in ("having", "order") if select.args.get(name))]
    return bool(select.args.get("group")) or any(aggregates_in(one) for one in given)


def grouped(rows: Rows, select: exp.Select) -> Stage:
    """The table of groups that SELECT, HAVING and ORDER BY are computed from."""
    return _Grouping(rows, select).stage()


class _Grouping:
    def __init__(self, rows: Rows, select: exp.Select) -> None:
        self.rows, self.select, self.source = rows, select, rows.source
        self.names = _Names()
        self.window, self.processing = rows.window, rows.processing
        self.by: list[str] = []
        self.sets: GroupingSets | None = None
        self.set_number, self.set_id = "", ""
        """Columns of the number of a set, and of grouping_id()."""
        self.made: dict[str, str] = {}
        """Columns that keys are computed into."""

    def stage(self) -> Stage:
        group = self.select.args.get("group")
        cut = self.rows.cut
        if cut is not None and isinstance(self.rows.flow, Table):  # joined with one
            self._add_moments(cut.time, cut.sizes_us, "window" if cut.function == "tumble" else "", self.select)
        for one in self._keys(group):
            self._add_key(one)
        aggregates = self._aggregates()
        flow = self._flow(aggregates)
        taken = {name.lower() for name in (*self.names.all.values(), *self._window_names)}
        one_row = not self.by and self.window is None and self.sets is None
        stage = Stage(flow, self._rewrite, frozenset(taken), one_row, self.window is not None)
        having = self.select.args.get("having")
        if having is None:
            return stage
        return replace(stage, flow=flow.where(stage.text(transformed(having.this.copy(), self._item_named))))

    @property
    def _window_names(self) -> tuple[str, ...]:
        return (START, END) if self.window is not None else ()

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _keys(self, group: exp.Group | None) -> list[exp.Expr]:
        if group is None:
            return []
        if several := [name for name in NOT_READ if group.args.get(name)]:
            raise self.source.refusal(
                start_of(group), f"GROUP BY {several[0].upper()} is not read", "Name what it is grouped by."
            )
        self.sets = sets_of(group, lambda one: self._key_text(self._meant(one)), self.source)
        if self.sets is None:
            return [self._meant(one) for one in group.expressions]
        self.set_number = fresh("grouping_set", self.rows.taken)
        self.set_id = fresh(GROUPING_ID, self.rows.taken)
        return [self._meant(one) for one in self.sets.keys.values()]

    def _key_text(self, node: exp.Expr) -> str:
        if isinstance(node, exp.Anonymous) and str(node.this).lower() in CUT:
            return self.source.text[start_of(node) :][:80]
        return self.rows.text(node)

    def _meant(self, node: exp.Expr) -> exp.Expr:
        """What a number or a name of SELECT stands for; columns of FROM come first, as in Spark."""
        items: list[exp.Expr] = self.select.expressions
        if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
            number = int(str(node.this))
            if not 1 <= number <= len(items):
                raise self.source.refusal(start_of(node), f"GROUP BY {number} is none of {len(items)} columns")
            meant: exp.Expr = items[number - 1].unalias()
            return meant
        return self._item_named(node)

    def _item_named(self, node: exp.Expr) -> exp.Expr:
        """What SELECT computes under a name that no column of FROM has; anything else as it is."""
        if isinstance(node, exp.Column) and not node.table and self.rows.find(node) is None:
            for one in self.select.expressions:
                if isinstance(one, exp.Alias) and one.alias.lower() == node.name.lower():
                    return one.unalias().copy()
        return node

    def _add_key(self, node: exp.Expr) -> None:
        if isinstance(node, exp.Anonymous) and str(node.this).lower() in CUT:
            self._set_window(node)
            return
        if self.window is not None and window_part(node, self.rows) is not None:
            return
        if aggregates_in(node):
            raise self.source.refusal(start_of(node), "GROUP BY has an aggregate", "Group by what it is computed of.")
        text = self.rows.text(node)
        if text in self.names.keys:
            return
        if self.sets is not None:
            name = self._free(self._alias_of(text), "key")
            self.names.keys[text] = name
            self.by.append(name)
            self.made[name] = f"case when {self.set_number} in ({self.sets.among(text)}) then {text} end"
            return
        plain = self.rows.plain(node)
        name = plain.flat if plain is not None else self._free(self._alias_of(text), "key")
        self.names.keys[text] = name
        self.by.append(name)
        if plain is None:
            self.made[name] = text

    def _set_window(self, node: exp.Anonymous) -> None:
        """window(at, '10 minutes' [, '5 minutes' [, '1 minute']]) or session_window(at, '5 minutes')."""
        inputs, name = list(node.expressions), str(node.this).lower()
        if self.window is not None:
            raise self.source.refusal(start_of(node), "time is cut into windows twice", "Once is enough.")
        if not 2 <= len(inputs) <= (4 if name == "window" else 2):
            raise self.source.refusal(start_of(node), f"{name}(...) cannot be read", "Write window(at, '5 minutes').")
        self.processing = is_now(inputs[0])
        if isinstance(self.rows.flow, Stream) and not self.processing:
            check_event_time(self.rows, inputs[0])
        sizes = [spelled(interval_us(one, self.source)) for one in inputs[1:]]
        if name == "session_window":
            self.window = session(sizes[0])
        elif len(sizes) > 1 and sizes[1] != sizes[0]:
            self.window = hopping(sizes[0], sizes[1], offset=sizes[2] if len(sizes) > 2 else "0s")
        else:
            self.window = tumbling(sizes[0], offset=sizes[2] if len(sizes) > 2 else "0s")
        if isinstance(self.rows.flow, Table):
            self._add_moments(inputs[0], [interval_us(one, self.source) for one in inputs[1:]], name, node)

    def _add_moments(self, time: exp.Expr, sizes: Sequence[int], name: str, node: exp.Expr) -> None:
        """Rows of a table are not late: windows of one size are columns of theirs."""
        if name != "window" or (len(sizes) > 1 and sizes[1] != sizes[0]) or self.processing:
            raise self.source.refusal(
                start_of(node), "rows of a table are grouped by windows of one size and of their own time only",
                "Use TUMBLE or window(at, '5 minutes'), or group the stream before it is joined.",
            )  # fmt: skip
        offset = sizes[2] if len(sizes) > 2 else 0
        micros = f"unix_micros({self.rows.text(time)})"
        begin = f"({micros} - pmod({micros} - {offset}, {sizes[0]}))"
        self.made |= {START: f"timestamp_micros{begin}", END: f"timestamp_micros({begin} + {sizes[0]})"}
        self.by += [START, END]

    def _alias_of(self, text: str) -> str:
        """What SELECT calls an expression; "" if it does not."""
        for one in self.select.expressions:
            inner = one.unalias()
            if isinstance(one, exp.Alias) and not aggregates_in(inner) and self._text(inner) == text:
                return str(one.alias)
        return ""

    def _text(self, node: exp.Expr) -> str:
        """ "" for what names something that FROM does not have."""
        columns = [one for one in node.find_all(exp.Column) if not isinstance(one.this, exp.Star)]
        if node.find(exp.Query) or any(self.rows.find(one) is None for one in columns):
            return ""
        return self.rows.text(node)

    def _free(self, alias: str, otherwise: str) -> str:
        taken = {*self.rows.taken, *(name.lower() for name in (*self.names.all.values(), START, END))}
        usable = bool(alias) and not alias.startswith("_") and alias.lower() not in taken
        return alias if usable else fresh(otherwise, taken)

    # -- aggregates ----------------------------------------------------------------------------------------------------

    def _aggregates(self) -> list[Expression]:
        """Each once, however often the query has it; under the name that SELECT gives it where that is free."""
        parts = [self.select.args.get(name) for name in ("having", "qualify", "order")]
        found: list[Expression] = []
        for one in [*self.select.expressions, *(part for part in parts if part is not None)]:
            for call in aggregates_in(one):
                text = self.rows.text(call)
                if text in self.names.aggregates or self._of_sets(call) is not None:
                    continue
                direct = isinstance(one, exp.Alias) and one.this is call
                name = self._name(one.alias if direct else "")
                self.names.aggregates[text] = name
                found.append(self._exact(call, name) or self._own(call, name) or as_column(text, name))
        return found or [as_column("count(*)", self._name("rows_in_group"))]

    def _name(self, alias: str) -> str:
        """A column of the input may have the name of an aggregate: it is gone after it."""
        taken = {name.lower() for name in (*self.names.all.values(), *self.by, START, END)}
        usable = bool(alias) and not alias.startswith("_") and alias.lower() not in taken
        return alias if usable else fresh("aggregate", taken)

    def _own(self, call: exp.Expr, name: str) -> Expression | None:
        """Sketches that headwater has in place of Spark's."""
        if not isinstance(call, exp.Anonymous):
            return None
        said, inputs = str(call.this).lower(), list(call.expressions)
        if said == "approx_count_distinct" and len(inputs) == 1:
            return distinct(self.rows.text(inputs[0])).alias(name)
        exact = len(inputs) >= 2 and isinstance(inputs[1], exp.Literal) and not inputs[1].is_string
        if said in ("percentile_approx", "approx_percentile") and exact:
            return percentile(self.rows.text(inputs[0]), float(str(inputs[1].this))).alias(name)
        return None

    def _exact(self, call: exp.Expr, name: str) -> Expression | None:
        """percentile(x, 0.5), median(x), percentile_cont(0.5) WITHIN GROUP (ORDER BY x), each perhaps with FILTER."""
        inner, condition = call, ""
        if isinstance(inner, exp.Filter):
            inner, condition = inner.this, self.rows.text(inner.expression.this)
        read = exact_of(inner, self.source)
        if read is None:
            return None
        if isinstance(self.rows.flow, Stream) and self.window is None:
            raise self.source.refusal(
                start_of(call), f"{read.said}(...) of a stream would need all its values for ever",
                "Write percentile_approx(x, 0.5), or group by windows.",
            )  # fmt: skip
        text = self.rows.text(read.column)
        text = f"case when {condition} then {text} end" if condition else text
        return exact_percentile(text, read.ranks, several=read.several, discrete=read.discrete).alias(name)

    # -- the table -----------------------------------------------------------------------------------------------------

    def _flow(self, aggregates: Sequence[Expression]) -> Table:
        flow = self.rows.flow
        if self.sets is not None:
            flow = flow.with_columns(**{self.set_number: f"sequence(0, {len(self.sets.sets) - 1})"})
            flow = flow.explode(self.set_number)
            bits = self.sets.bits(list(self.names.keys))
            self.made[self.set_id] = self._by_set(self.set_number, range(len(bits)), bits, "bigint")
            self.by.append(self.set_id)
            if len(set(bits)) < len(bits):  # a set that is named twice has its groups twice
                self.by.append(self.set_number)
        if self.made:
            flow = flow.with_columns(**self.made)
        if isinstance(flow, Stream) and self.window is not None:
            cut = flow.window(self.window, time=PROCESSING if self.processing else EVENT)
            return (cut.by(*self.by) if self.by else cut).agg(*aggregates)
        return Grouped(flow.node, tuple(self.by)).agg(*aggregates)

    def _rewrite(self, node: exp.Expr) -> exp.Expr:
        names = self.names.all

        def replaced(one: exp.Expr) -> exp.Expr | None:
            if self.window is not None and (part := window_part(one, self.rows)) is not None:
                return flat_tree(part)
            if (bits := self._of_sets(one)) is not None:
                return exp.Var(this=bits)
            if is_aggregate(one) or self._text_of_part(one) in names:
                found = names.get(self.rows.text(one))
                return None if found is None else flat_tree(found)
            if isinstance(one, exp.Column) and not isinstance(one.this, exp.Star):
                self.rows.resolve(one)  # a column that there is not is refused as that
                raise self.source.refusal(
                    start_of(one), f"{one.sql(dialect='spark')} is neither grouped by nor aggregated",
                    "Add it to GROUP BY, or take an aggregate of it such as max(...).",
                )  # fmt: skip
            return None

        return self.rows.rewritten(node, replaced)

    def _of_sets(self, node: exp.Expr) -> str | None:
        """grouping(x), or grouping_id(), by the number of the set that a group is of; None for anything else."""
        if not isinstance(node, exp.Anonymous) or str(node.this).lower() not in OF_SETS:
            return None
        said = str(node.this).lower()
        if self.sets is None:
            raise self.source.refusal(
                start_of(node), f"{said}(...) stands without sets of groups", "Add GROUP BY ROLLUP (...), for example."
            )
        keys = list(self.names.keys)
        texts = [self.rows.text(one) for one in node.expressions] or keys
        if wrong := [one for one in texts if one not in keys]:
            raise self.source.refusal(
                start_of(node), f"{said}(...) is of {wrong[0]}, which is not grouped by",
                f"It is grouped by {', '.join(keys)}.",
            )  # fmt: skip
        if said == "grouping" and len(texts) != 1:
            raise self.source.refusal(
                start_of(node), f"grouping(...) has {len(texts)} inputs", "Write grouping(x), or grouping_id(x, y)."
            )
        if texts == keys and said == GROUPING_ID:
            return self.set_id
        kind = "tinyint" if said == "grouping" else "bigint"
        return self._by_set(self.set_id, self.sets.bits(keys), self.sets.bits(texts), kind)

    def _by_set(self, column: str, numbers: Sequence[int], values: Sequence[int], kind: str) -> str:
        whens = " ".join(
            f"when {number} then {value}" for number, value in dict(zip(numbers, values, strict=True)).items()
        )
        return f"cast(case {column} {whens} end as {kind})"

    def _text_of_part(self, node: exp.Expr) -> str:
        if isinstance(node, exp.Query | exp.Window | exp.Ordered | exp.Order | exp.Alias | exp.Identifier | exp.Star):
            return ""
        return self._text(node)


def window_part(node: exp.Expr, rows: Rows) -> str | None:
    """The column of a window that is named; None if it is something else."""
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return None
    parts = tuple(one.name.lower() for one in node.parts)
    if len(parts) > 1 and parts[0] in {item.alias.lower() for item in rows.items}:
        parts = parts[1:]
    return PARTS.get(parts)


def is_whole_window(node: exp.Expr) -> bool:
    """Whether SELECT has `window` itself."""
    return isinstance(node, exp.Column) and not node.table and node.name.lower() in CUT
