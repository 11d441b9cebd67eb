"""Joins that follow both their sides: the arguments of a join macro, and what is wrong with
them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from dbt.adapters.sparksession.declared.asof import Asof, read_asof
from dbt.adapters.sparksession.declared.declarations import DeclarationError, name_problems
from dbt.adapters.sparksession.declared.join_arguments import (
    FILTERS,
    FORMS,
    FOUND_IN,
    JoinArguments,
    PlainSide,
    Sides,
    equal_columns,
    right_given,
)
from dbt.adapters.sparksession.declared.join_bounds import (
    AS_KNOWN_AT,
    KNOWN_FROM,
    KNOWN_TO,
    join_bounds,
)
from dbt.adapters.sparksession.declared.join_configs import (
    COMMIT_NUMBER,
    FOLD,
    config_problems,
    names_with_key,
)
from dbt.adapters.sparksession.declared.join_sides import (
    Side,
    belief_problems,
    column_problems,
    columns_asked,
    type_problems,
)
from dbt.adapters.sparksession.edges import Given, Json, Node, Settings
from dbt.adapters.sparksession.keyed.layout import is_ordered_type_name
from dbt.adapters.sparksession.reading.ranges import values_of
from dbt.adapters.sparksession.reading.retract_sql import ROW_KIND
from dbt.adapters.sparksession.yaml_fields import is_mapping, read_fields

COLUMN = re.compile(r"[^\W\d]\w*+")
EXAMPLE = (
    "interval_join(left={'relation': ref('order'), 'key': 'order_id', 'columns': ['order_id', "
    "'create_time'], 'time': 'create_time'}, right={'relation': ref('payment'), 'key': "
    "'payment_id', 'columns': ['payment_id', 'amount'], 'time': 'pay_time'}, on={'order_id': "
    "'order_id'}, lower='-5 minutes', upper='1 hour', kind='left')"
)


class JoinConfigError(DeclarationError):
    """The arguments of a join macro."""

    def __init__(self, name: str, problems: Iterable[str]) -> None:
        super().__init__(name, problems, EXAMPLE)


@dataclass(frozen=True)
class Join:
    """A join as its macro writes it.

    Attributes:
        on: column of the left side -> column of the right side.
        null_safe: columns of the left side in `on` whose nulls equal those of the right side.
        condition: further SQL over left_row and right_row, parts with `and` between; "" for none.
        asked_of_right: columns of the right side that an author's own condition names.
        kind: inner, left; full, which has right rows without a partner too; semi or anti, whose
            rows are left rows that have a partner, or none.
        wanted_left, wanted_right: where one side's rows may find partners on the other, as
            arguments of PruningColumn; the same of touched keys: wanted_keys, wanted_pairs, of
            the right side's: wanted_right_keys.
        asof: which of the rows that match a left row gets; None for all.
    """

    name: str
    left: Side
    right: Side
    on: dict[str, str]
    condition: str
    kind: str
    asked_of_right: frozenset[str] = frozenset()
    null_safe: frozenset[str] = frozenset()
    wanted_left: list[Json] = field(default_factory=list)
    wanted_right: list[Json] = field(default_factory=list)
    asof: Asof | None = None

    @property
    def is_filter(self) -> bool:
        """Whether its rows are left rows, not pairs."""
        return self.kind in FILTERS

    @property
    def shown(self) -> list[Side]:
        """The sides whose columns it has."""
        return [self.left] if self.is_filter else [self.left, self.right]

    @property
    def wanted_time(self) -> Json | None:
        """What wanted_left has of the left side's time; None of a join without."""
        times = self.left.times.values()
        return next((wanted for wanted in self.wanted_left if wanted["column"] in times), None)

    @property
    def columns(self) -> list[str]:
        """Columns of the join, in their order."""
        names = [name for side in self.shown for name in side.columns.values()]
        return [*names, FOUND_IN] if self.is_full else names

    @property
    def is_full(self) -> bool:
        """Whether its rows are also right rows without a partner."""
        return self.kind == "full"

    @property
    def key(self) -> list[str]:
        """Columns that distinguish its rows: a pair's two keys."""
        return [name for side in self.shown for name in side.key_names]

    @property
    def images(self) -> list[str]:
        """SQL of the columns, of left_row and right_row."""
        images = [
            f"{side.alias}.{column}" + (f" as {name}" if name != column else "")
            for side in self.shown
            for column, name in side.columns.items()
        ]
        found_in = (
            "case when right_row.join__is_there is null then 'left' "
            f"when left_row.join__is_there is null then 'right' else 'both' end as {FOUND_IN}"
        )
        return [*images, found_in] if self.is_full else images

    @property
    def images_of_right(self) -> list[str]:
        """The same of a right row without a partner, of kind full."""
        images = [f"null as {name}" for name in self.left.columns.values()]
        images += [f"right_row.{column} as {name}" for column, name in self.right.columns.items()]
        return [*images, f"'right' as {FOUND_IN}"]

    @property
    def keyword(self) -> str:
        """Which join it is, in SQL."""
        return f"left {self.kind}" if self.is_filter else self.kind

    @property
    def wanted_keys(self) -> list[Json]:
        return self.left.wanted_keys(self.left.key)

    @property
    def wanted_pairs(self) -> list[Json]:
        return self.left.wanted_keys(self.left.key_names)

    @property
    def wanted_right_pairs(self) -> list[Json]:
        return self.right.wanted_keys(self.right.key_names)

    @property
    def wanted_right_keys(self) -> list[Json]:
        return self.right.wanted_keys(self.right.key)

    @property
    def wanted_neighbours(self) -> list[Json]:
        """Where the right rows are that may hide changed right rows from left rows."""
        assert self.asof is not None
        types = self.right.types
        equal = [values_of(name, types[name]) for name in dict.fromkeys(self.on.values())]
        return equal + _typed(self.asof.to_neighbours, self.right, True)

    @property
    def equal(self) -> list[str]:
        """SQL conditions of the columns of `on`."""
        return [
            f"left_row.{own} {self.equals(own)} right_row.{other}" for own, other in self.on.items()
        ]

    def equals(self, column: str) -> str:
        """The operator by which a left column of `on` equals its right column."""
        return "<=>" if column in self.null_safe else "="

    @property
    def known_left(self) -> list[str]:
        """Columns of the left side that are null in no row with a partner, of asof_join."""
        assert self.asof is not None
        return [own for own in self.on if own not in self.null_safe] + [self.asof.at]

    @property
    def known_right(self) -> list[str]:
        """The same of the right side."""
        assert self.asof is not None
        plain = [other for own, other in self.on.items() if own not in self.null_safe]
        return list(dict.fromkeys([*plain, self.asof.other]))

    @property
    def conditions(self) -> list[str]:
        """SQL conditions of a pair."""
        return [*self.equal, *([self.condition] if self.condition else [])]

    @property
    def matches(self) -> str:
        """The same as one."""
        return " and ".join(self.conditions)

    @property
    def touches(self) -> str:
        """SQL condition: a left row has, had or gets a changed right row, see _touching_rows."""
        return self.matches if self.asof is None else " and ".join([*self.equal, self.asof.touches])

    @property
    def reached(self) -> str:
        """SQL condition: a right row may be the partner of some of a key's left rows."""
        assert self.asof is not None
        return " and ".join(filter(None, [*self.equal, self.asof.reached]))

    @property
    def definition(self) -> Json:
        """What its stored rows depend on; columns: name in the join -> where it comes from."""
        columns = {
            name: f"{side.name}.{column}"
            for side in self.shown
            for column, name in side.columns.items()
        }
        orders = {
            f"{side.name}_sequence": side.sequence
            for side in (self.left, self.right)
            if side.sequence
        }
        own: Json = {} if self.asof is None else {"asof": self.asof.definition}
        own |= {
            "left": self.left.relation.name_only.render(),
            "right": self.right.relation.name_only.render(),
            "matches": self.matches,
            "kind": self.kind,
            "columns": columns,
        }
        return orders | own

    def differs_from(self, stored: Settings) -> bool:
        """Whether rows that were stored under a definition say something else than its own do.

        Columns may come and go; one that stays has to come from where it came from. Definitions
        that were stored without columns are of before they were recorded.
        """
        own = dict(self.definition)
        columns, was = own.pop("columns"), dict(stored)
        origins = was.pop("columns", {})
        return own != was or any(
            columns.get(name, origin) != origin for name, origin in origins.items()
        )

    @property
    def ends_by(self) -> tuple[str, str] | None:
        """Columns of the right side since when and until when a version holds, where the latter
        does nothing but end it: of a version that another one ended, the facts of the time between
        both ends are touched and no others. None: a changed end changes more, or that is unknown.

        Of beliefs they are known_from and known_to: what was believed never changes, it ends.
        """
        period = (KNOWN_FROM, KNOWN_TO)
        if KNOWN_TO not in self.right.times:
            period = ("valid_from", "valid_to")
        begin, end = (self.right.times.get(what) for what in period)
        if begin is None or end is None:
            return None
        shown = end in self.right.columns or end in self.right.key
        if shown or end in self.asked_of_right or self.right.sequence:
            return None
        types = self.right.types
        plain = all(use in types and is_ordered_type_name(types[use]) for use in self.right.uses)
        return (begin, end) if plain and types.get(begin) == types.get(end) else None


def _side(
    name: str,
    given: Given,
    arguments: type[Sides],
    problems: list[str],
    *,
    taken: Collection[str] = (),
) -> Side:
    """One side as it is given; `taken` are names of the other side's columns."""
    if not is_mapping(given):
        problems.append(f"{name} must be {{'relation', 'key', 'columns'}}, got {given!r}")
        given = {}
    read = read_fields(arguments, given, f"{name}.", problems)
    key = list(read.key)
    columns = names_with_key(key, read.columns, taken)
    times = {
        time: getattr(read, time)
        for time in ("time", "valid_from", "valid_to", KNOWN_FROM, KNOWN_TO)
        if time in arguments.model_fields
    }
    tie_break = list(getattr(read, "tie_break", ()))
    index = getattr(read, "index", None)
    if index is not None and (name == "right" or read.sequence):
        problems.append(f"{name}.index is for a left side without a sequence")
    sequence = list(read.sequence)
    return Side(name, read.relation, key, columns, times, sequence, tie_break, index=index)


def _note_known_times(given: Given, left: Side, right: Side) -> None:
    """Let the sides have the times that a join by what was known goes by, and no other join."""
    if given is None:
        for name in (KNOWN_FROM, KNOWN_TO):
            right.times.pop(name, None)
    elif isinstance(given, str) and COLUMN.fullmatch(given):
        left.times[AS_KNOWN_AT] = given


def read_join(given: Settings, model: Node, types: Given) -> Join:
    """The join that a macro declares.

    Args:
        given: {form, left, right, on, kind} and what the form takes beside.
        model: the model's node; its config has to fit, unless its inputs are given by a test.
        types: function: relation -> (column -> Spark type), None where that is unknown.

    Raises:
        JoinConfigError: with every problem.
    """
    problems: list[str] = []
    form = given["form"]
    of_left, of_right = FORMS.get(form, (PlainSide, PlainSide))
    left = _side("left", given["left"], of_left, problems)
    right = _side(
        "right", right_given(given, problems), of_right, problems, taken=left.columns.values()
    )
    own = {name: given[name] for name in JoinArguments.model_fields if name in given}
    arguments = read_fields(JoinArguments, own, "", problems)
    on, null_safe = equal_columns(arguments)
    _note_known_times(given.get(AS_KNOWN_AT), left, right)
    for side in (left, right):
        of_rows = (*side.columns, *side.columns.values(), *side.times.values())
        problems += name_problems((*side.key, *of_rows, *side.sequence, *side.tie_break))
    problems += name_problems((*on, *on.values()))
    names = {*right.columns.values()} if arguments.kind not in FILTERS else set()
    for name in set(left.columns.values()) & names:
        problems.append(
            f"both sides have a column {name}; name the right one otherwise: "
            f"'columns': {{'{name}': 'right_{name}'}}"
        )
    own_names = {COMMIT_NUMBER, ROW_KIND, *([FOUND_IN] if arguments.kind == "full" else [])}
    for name in {*left.columns.values(), *names} & own_names:
        problems.append(f"{name}: columns of this name are the join's own")
    asof = None
    if form == "asof_join":
        if arguments.kind not in ("inner", "left"):
            problems.append(
                f"kind must be inner or left, got {arguments.kind!r}; whether there is any row "
                "within the tolerance, interval_join and history_join answer"
            )
        if left.index is not None:
            problems.append("left.index must not be given: asof_join takes none")
        order = list(dict.fromkeys([*right.tie_break, *right.key]))
        asof = read_asof(given, left.times["time"], right.times["time"], order, problems)
        condition, to_left, to_right = asof.condition, asof.to_left, asof.to_right
    else:
        condition, to_left, to_right = join_bounds(given, left.times, right.times, problems)
    asked_of_right = frozenset(columns_asked(right.alias, arguments.condition or ""))
    if arguments.condition:
        condition = " and ".join(filter(None, [condition, f"({arguments.condition})"]))
    if problems:
        raise JoinConfigError(form, problems)
    sides = {}
    for side, keys in ((left, on), (right, on.values())):
        named = columns_asked(side.alias, condition)
        matched_by = list(dict.fromkeys([*keys, *side.times.values(), *named, *side.tie_break]))
        sides[side.name] = replace(side, matched_by=matched_by)
    known = {name: types(side.relation) for name, side in sides.items()}
    for name, side in sides.items():
        if known[name] is not None:
            side.types.update(known[name])
            problems += column_problems(side)
    if form == "temporal_join":
        problems += belief_problems(sides["right"], asked_of_right)
    if not problems:
        problems += type_problems(sides["left"], sides["right"], on)
    left, right = sides["left"], sides["right"]
    join = Join(
        form,
        *(left, right, on, condition, arguments.kind),
        asked_of_right=asked_of_right,
        null_safe=null_safe,
        asof=asof,
    )
    if known["left"] is not None and known["right"] is not None:
        problems += config_problems(model["config"], join.key, FOLD)
    if problems:
        raise JoinConfigError(form, problems)
    equal = [
        {"column": own, "low": other, "high": other, "nulls": own in null_safe}
        for own, other in on.items()
    ]
    back = [
        {"column": other, "low": own, "high": own, "nulls": own in null_safe}
        for own, other in on.items()
    ]
    join.wanted_left.extend(_typed(equal, join.right) + _typed(to_left, join.left, True))
    join.wanted_right.extend(_typed(back, join.left) + _typed(to_right, join.right, True))
    return join


def _typed(wanted: list[Json], side: Side, by_column: bool = False) -> list[Json]:
    """The same with the type of the bounds: that of the column they are about, or they come of."""
    return [
        arguments | {"kind": side.types.get(arguments["column" if by_column else "low"], "")}
        for arguments in wanted
    ]
