"""Declarations of counts (`daily_cut` and its like) and of metrics (`metric_rows`), as plans."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated

from dbt.adapters.sparksession.declared.declarations import DeclarationError, needs_backticks
from dbt.adapters.sparksession.edges import Given, Json, Settings
from dbt.adapters.sparksession.sql import quoted
from dbt.adapters.sparksession.yaml_fields import (
    Fields,
    Name,
    Names,
    field_errors,
    known_fields,
)
from pydantic import Field, StrictInt, StrictStr

COUNT_EXAMPLE = (
    "{dimensions: [user_id], measures: {order_count: {aggregate: count}, "
    "amount_sum: {aggregate: sum, column: amount, type: 'decimal(38, 2)'}}}"
)
METRIC_EXAMPLE = (
    "{time: viewed_at, grains: [5m, 1h, 1d], dimension_sets: {all: [], page: [page]}, "
    "measures: {pv: {aggregate: count}, uv: {aggregate: count_distinct, column: visitor_id}}}"
)
GRAINS = ["5m", "10m", "1h", "1d"]
# types by which a sum doesn't depend on the order of its rows
EXACT = re.compile(
    r"\s*(?:tinyint|byte|smallint|short|int|integer|bigint|long"
    r"|(?:decimal|dec|numeric)\s*(?:\([\d\s,]*\))?)\s*",
    re.IGNORECASE,
)
LG_K = 12  # binary logarithm of how many values a sketch keeps

NamedMapping = Annotated[
    dict[Given, Given], Field(min_length=1, description="be a mapping of names, got {value}")
]
OF_ROWS = Field(None, description="counts rows and has no column, got {measure}")
Column = Annotated[Name, Field(description="must name its column, got {measure}")]
SumType = Annotated[
    Name,
    Field(
        description="must have a type with all places of {column}, since what has more is "
        "rounded, got {measure}"
    ),
]


class Count(Fields):
    """A count's declaration."""

    cut_column: Given = "cut_date"
    dimensions: Annotated[Names, Field(description="be a list of column names, got {value}")]
    measures: NamedMapping


class CountMeasure(Fields):
    """What each measure of a count may have; a `type` has a meaning to sums alone.

    A count has no measures of some rows: a `where` that was ignored would count all of them.
    """

    aggregate: Given
    column: Given = None
    type: Given = None


class RowCount(CountMeasure):
    """Measure `count` of a count."""

    column: None = Field(None, description="counts rows and has no column, got {column}")


class ValueMeasure(CountMeasure):
    """Measures `min`, `max` and `count_distinct` of a count."""

    column: Column


class Sum(ValueMeasure):
    """Measure `sum` of a count."""

    type: SumType


class Metric(Fields):
    """A metric's declaration, but for its grains and dimension sets."""

    time: Annotated[StrictStr, Field(description="name a column, got {value}")]
    grains: Given = None
    dimension_sets: Annotated[
        dict[Given, Given],
        Field(min_length=1, description="map names to lists of columns, got {value}"),
    ] = Field(default_factory=lambda: {"all": []})
    measures: NamedMapping


class MetricMeasure(Fields):
    """What each measure of a metric may have."""

    aggregate: Given
    column: Given = None
    type: Given = None
    where: Given = None
    lg_k: Given = LG_K


class MetricRowCount(MetricMeasure):
    """Measure `count` of a metric."""

    column: None = OF_ROWS


class MetricValues(MetricMeasure):
    """Measure `count_distinct` of a metric."""

    column: Column


class MetricSum(MetricValues):
    """Measure `sum` of a metric."""

    type: SumType


class MetricSketch(MetricValues):
    """Measures `hll` and `theta` of a metric."""

    lg_k: Annotated[
        StrictInt,
        Field(ge=4, le=21, description=": lg_k must be a whole number from 4 to 21, got {lg_k}"),
    ] = LG_K


AGGREGATES: dict[str, type[Fields]] = {
    "count": RowCount,
    "sum": Sum,
    "min": ValueMeasure,
    "max": ValueMeasure,
    "count_distinct": ValueMeasure,
}
METRIC_AGGREGATES: dict[str, type[MetricMeasure]] = {
    "count": MetricRowCount,
    "sum": MetricSum,
    "count_distinct": MetricValues,
    "hll": MetricSketch,
    "theta": MetricSketch,
}

# those that tell the values of a column apart
VALUE_AGGREGATES = ("count_distinct", "hll", "theta")


def change_of(measure: str) -> str:
    """Column of a level (days, months, years) that holds the net changes of a measure.

    It differs from the measure's own name, which the totals have: a change is no standing number.
    """
    return f"{measure}_change"


def count_plan(declared: Given) -> Json:
    """A count's declaration, checked, for the macros that write its SQL.

    Returns:
        {"cut_column", "dimensions", "values" (columns that min, max and count_distinct are of),
        "sums" (measure that adds up -> {"aggregate", "column", "type", "change" (its column in the
        levels, see `change_of`)}), "count" (the first measure that counts rows), "measures" (as
        declared)}.

    Raises:
        DeclarationError: with all problems.
    """
    given = declared if isinstance(declared, Mapping) else {}
    problems = list(_field_problems(Count, declared))
    dimensions, measures = given.get("dimensions"), given.get("measures")
    dimensions = list(dimensions) if isinstance(dimensions, list | tuple) else []
    sums: Json = {}
    values: list[str] = []
    count = None
    known = "count, sum, min, max or count_distinct"
    for name, kind, measure in _sound_measures(measures, AGGREGATES, known, problems):
        if kind in ("count", "sum"):
            sums[name] = {
                "aggregate": kind,
                "column": measure.get("column"),
                "type": "bigint" if kind == "count" else measure["type"],
                "change": change_of(name),
            }
            count = name if count is None and kind == "count" else count
        elif measure["column"] not in [*values, *dimensions]:
            values.append(measure["column"])
    cut_column = given.get("cut_column", "cut_date")
    named = {
        "the cut column": [cut_column],
        "a dimension": dimensions,
        "the column of a min, max or count_distinct": values,
        "a measure": measures if isinstance(measures, Mapping) else (),
    }
    problems += _name_problems(sums, named)
    named_once = [cut_column, *dimensions, *values]
    problems += [
        f"{name} needs backticks: write {quoted(name)}"
        for name in dict.fromkeys(filter(_is_bare_and_odd, named_once))
    ]
    problems += [
        f"measure {name} needs a name of letters, digits and _"
        for name in (measures if isinstance(measures, Mapping) else ())
        if needs_backticks(str(name))
    ]
    if not problems and count is None:
        problems.append(
            "measures must include a count of rows: a group is there while its count is not 0"
        )
    if problems:
        raise DeclarationError("The declaration of a count is wrong", problems, COUNT_EXAMPLE)
    return {
        "cut_column": cut_column,
        "dimensions": dimensions,
        "values": values,
        "sums": sums,
        "count": count,
        "measures": measures,
    }


def _is_bare_and_odd(name: Given) -> bool:
    """Whether a column's name isn't in the backticks that Spark takes it in alone."""
    return isinstance(name, str) and not name.startswith("`") and needs_backticks(name)


def _name_problems(sums: Json, named: Mapping[str, Iterable[Given]]) -> Iterator[str]:
    """Error texts for measures whose column in the levels has the name of something else.

    Args:
        sums: as of `count_plan`.
        named: what the declaration names -> its names.
    """
    taken = {str(name).lower(): what for what, names in named.items() for name in names}
    for name, measure in sums.items():
        what = taken.get(measure["change"].lower())  # to Spark a name is the same in any case
        if what:
            yield (
                f"measure {name} needs another name: the levels keep its net changes as "
                f"{measure['change']}, which is {what} too"
            )


def metric_plan(declared: Given, sizes: Collection[str]) -> Json:
    """A metric's declaration, checked, for the macros that write its SQL.

    Args:
        sizes: the grains that there are.

    Returns:
        {"time", "grains", "sets" (names), "dimensions", "sets_with" (dimension -> names of the
        sets that have it), "measures" (name -> {"aggregate", "column", "type", "where", "lg_k"})}.

    Raises:
        DeclarationError: with all problems.
    """
    given = declared if isinstance(declared, Mapping) else {}
    found = list(_field_problems(Metric, declared))
    grains = given.get("grains", GRAINS)
    if not (isinstance(grains, list | tuple) and grains) or any(
        grain not in list(sizes) for grain in grains
    ):
        found.append(f"grains must be a list of some of {', '.join(sizes)}, got {grains}")
    sets = given.get("dimension_sets", {"all": []})
    sets_with: dict[str, list[str]] = {}
    for name, columns in sets.items() if isinstance(sets, Mapping) else ():
        if not isinstance(columns, list | tuple) or any(
            not isinstance(column, str) for column in columns
        ):
            found.append(f"dimension set {name} must be a list of columns, got {columns}")
            continue
        for column in columns:
            sets_with.setdefault(column, []).append(name)
    measures = given.get("measures")
    plans: Json = {}
    known = ", ".join(METRIC_AGGREGATES)
    for name, kind, measure in _sound_measures(measures, METRIC_AGGREGATES, known, found):
        plans[name] = METRIC_AGGREGATES[kind].model_validate(measure).model_dump()
    if not found and not any(plan["aggregate"] in ("count", "sum") for plan in plans.values()):
        found.append("measures must have a count or a sum")
    if found:
        raise DeclarationError("The declaration of a metric is wrong", found, METRIC_EXAMPLE)
    return {
        "time": given["time"],
        "grains": list(grains),
        "sets": list(sets),
        "dimensions": list(sets_with),
        "sets_with": sets_with,
        "measures": plans,
    }


def _field_problems(fields: type[Fields], declared: Given) -> Iterator[str]:
    """Error texts for the fields of a declaration."""
    if not isinstance(declared, Mapping):
        yield f"it must be a mapping, got {declared}"
        declared = {}
    names = list(known_fields(fields))
    for name, wanted in field_errors(fields, declared).items():
        if wanted is None:
            known = f"{', '.join(names[:-1])} and {names[-1]}"
            yield f"it has {name}, but only {known} are known"
        else:
            yield f"{name} must {wanted.format(value=declared.get(name))}"


def _sound_measures(
    measures: Given, fields: Mapping[str, type[Fields]], known: str, problems: list[str]
) -> Iterator[tuple[str, str, Settings]]:
    """The measures of a declaration that have no problem.

    Args:
        measures: as declared.
        fields: aggregate -> fields of a measure of it.
        known: the aggregates, for a message.
        problems: gets an error text for each measure that is left out.

    Yields:
        Name, aggregate and settings of a measure.
    """
    for name, measure in measures.items() if isinstance(measures, Mapping) else ():
        kind = _aggregate(measure, fields)
        if kind is None:
            problems.append(f"measure {name} must have an aggregate of {known}, got {measure}")
            continue
        problem = _measure_problem(name, measure, fields[kind])
        if problem:
            problems.append(problem)
        else:
            yield name, kind, measure


def _aggregate(measure: Given, known: Settings) -> str | None:
    """The aggregate of a measure, where that is known, else None."""
    kind = measure.get("aggregate") if isinstance(measure, Mapping) else None
    return kind if isinstance(kind, str) and kind in known else None


def _measure_problem(name: Given, measure: Settings, fields: type[Fields]) -> str | None:
    """Error text for the first wrong field of a measure, else None; unknown fields before all."""
    errors = field_errors(fields, measure)
    unknown = [field for field, wanted in errors.items() if wanted is None]
    if unknown:
        known = list(known_fields(fields))
        return (
            f"measure {name} has {', '.join(unknown)}, but only {', '.join(known[:-1])} and "
            f"{known[-1]} are known"
        )
    for wanted in filter(None, errors.values()):
        text = wanted.format(
            measure=measure, column=measure.get("column"), lg_k=measure.get("lg_k")
        )
        return f"measure {name}{text}" if text.startswith(":") else f"measure {name} {text}"
    if issubclass(fields, (Sum, MetricSum)) and not EXACT.fullmatch(measure["type"]):
        return (
            f"measure {name} must have an exact type, a decimal or a whole number: a sum of floats "
            f"depends on the order of its rows, and of what came and went a rest stays, got "
            f"{measure}"
        )
    return None
