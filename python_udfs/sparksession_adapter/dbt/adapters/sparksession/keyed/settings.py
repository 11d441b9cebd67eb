"""The settings of folds and zippers as a config has them, checked one by one by pydantic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, get_args

from dbt.adapters.sparksession.edges import Given
from dbt.adapters.sparksession.iceberg.transforms import Transform
from dbt.adapters.sparksession.yaml_fields import (
    Columns,
    Condition,
    Fields,
    Name,
    NoColumns,
    Text,
    WholeNumber,
)
from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr

OnDelete = Literal["ignore", "retract", "remove_row"]
OtherColumns = Literal["last", "last_non_null"]
Function = Literal[
    "sum",
    "count",
    "max",
    "min",
    "bool_and",
    "bool_or",
    "first_value",
    "first_non_null_value",
    "last_value",
    "last_non_null_value",
    "listagg",
    "collect",
    "bitmap_or",
]
Unpaired = Literal["ends", "ignored"]
Period = Literal["valid", "known"]
GroupDelete = Literal["remove_row", "retract"]
BUCKETS = 4  # where a config names no number
LIST = "be a list of columns"
SOME = "name at least one column"
ONE_OF = "be one of {}"
ORDER = "be a list of columns, or of {column: .., order: descending}"
ORDER_OF_SOME = "name at least one column, as a name or as {column: .., order: descending}"


class OrderColumn(Fields):
    """A column that orders rows, the highest value last, or where it descends the lowest."""

    column: Name
    order: Literal["ascending", "descending"] = "ascending"


def _ordering(value: Given) -> Given:
    """A name, a mapping or a list of them as mappings."""
    entries = (value,) if isinstance(value, (str, Mapping)) else value
    if not isinstance(entries, (list, tuple)):
        return value
    return tuple({"column": entry} if isinstance(entry, str) else entry for entry in entries)


NoOrder = Annotated[tuple[OrderColumn, ...], BeforeValidator(_ordering)]
SomeOrder = Annotated[NoOrder, Field(min_length=1)]


class RunSettings(Fields):
    """How the runs of a keyed table lie, whatever they hold."""

    buckets: WholeNumber = BUCKETS
    bucket_by: Text = None
    partition_by: Given = None  # transforms, see Transform.read
    tier_runs: Annotated[StrictInt, Field(ge=2, description="be a whole number from 2")] = 8
    tier_rows: WholeNumber = 100_000


class FoldSettings(RunSettings):
    """`fold` of a model's config."""

    sequence: Annotated[NoOrder, Field(description=ORDER)] = ()
    tie_break: Annotated[NoOrder, Field(description=ORDER)] = ()
    sequence_groups: Annotated[
        dict[str, Given], Field(description="map names to {sequence, columns}")
    ] = {}
    aggregates: Annotated[dict[str, Given], Field(description="map columns to functions")] = {}
    default_aggregate: Given = None  # as an entry of aggregates
    other_columns: Annotated[
        OtherColumns, Field(description=ONE_OF.format(", ".join(get_args(OtherColumns))))
    ] = "last"
    row_kind: Text = None
    on_delete: Annotated[
        OnDelete | None, Field(description=ONE_OF.format(", ".join(get_args(OnDelete))))
    ] = None
    count_rows: Annotated[StrictBool, Field(description="be true or false")] = False
    keep_when: Condition = None
    hidden_columns: Annotated[NoColumns, Field(description=LIST)] = ()
    not_null: Annotated[NoColumns, Field(description=LIST)] = ()
    derived: Given = None
    tombstone_days: Annotated[WholeNumber | None, Field(description="be a whole number from 1")] = (
        None
    )
    tombstone_time: Text = None


class GroupSettings(Fields):
    """An entry of `fold.sequence_groups`."""

    NEEDED = ("sequence",)

    sequence: Annotated[SomeOrder, Field(description=ORDER_OF_SOME)] = ()
    columns: Annotated[NoColumns, Field(description=LIST)] = ()
    tie_break: Annotated[NoOrder | None, Field(description=ORDER)] = None
    on_delete: Annotated[
        OnDelete, Field(description=ONE_OF.format(", ".join(get_args(OnDelete))))
    ] = "retract"


class AggregateSettings(Fields):
    """An entry of `fold.aggregates`."""

    function: Annotated[
        Function, Field(description=ONE_OF.format(", ".join(get_args(Function))))
    ] = "last_value"
    ignore_retract: Annotated[StrictBool, Field(description="be true or false")] = False
    net: Annotated[StrictBool, Field(description="be true or false")] = False
    delimiter: Annotated[StrictStr, Field(description="be a text")] = ","
    distinct: Annotated[StrictBool, Field(description="be true or false")] = True
    elements: Annotated[StrictBool, Field(description="be true or false")] = False


class DerivedSettings(Fields):
    """`fold.derived`."""

    by: Columns
    key: Columns
    sql: StrictStr


class ZipperSettings(RunSettings):
    """`zipper` of a model's config."""

    NEEDED = ("sequence",)

    sequence: Annotated[Columns, Field(description=SOME)] = ()
    time: Annotated[StrictStr | None, Field(description="name the column that dates a change")] = (
        None
    )
    keep_time: Annotated[StrictBool, Field(description="be true or false")] = False
    tracked: Annotated[Columns | None, Field(description=SOME)] = None
    row_kind: Text = None
    unpaired_retraction: Annotated[
        Unpaired | None,
        Field(description=" or ".join(map(repr, get_args(Unpaired))).join(("be ", ""))),
    ] = None
    period: Annotated[
        Period, Field(description=" or ".join(map(repr, get_args(Period))).join(("be ", "")))
    ] = "valid"
    # of partial rows, see partial_zippers.py
    sequence_groups: Annotated[
        dict[str, Given], Field(description="map names to {sequence, columns}")
    ] = {}
    known_columns: Text = None
    ignore_nulls: Annotated[
        StrictBool | NoColumns, Field(description="be true or list columns")
    ] = False
    keep_when: Condition = None


class ZipperGroupSettings(Fields):
    """An entry of `zipper.sequence_groups`."""

    NEEDED = ("sequence", "columns")

    sequence: Annotated[Columns, Field(description=SOME)] = ()
    columns: Annotated[Columns, Field(description=SOME)] = ()
    on_delete: Annotated[
        GroupDelete, Field(description=ONE_OF.format(", ".join(get_args(GroupDelete))))
    ] = "retract"


def partition_setting(
    where: str, setting: RunSettings, key: tuple[str, ...], problems: list[str]
) -> tuple[Transform, ...]:
    """How the runs are partitioned below their level, as partition_by or buckets say."""
    given = setting.partition_by
    if given is None:
        column = setting.bucket_by or (key[0] if key else "")
        return (Transform("bucket", column, setting.buckets),)
    if setting.bucket_by is not None or setting.buckets != BUCKETS:
        problems.append(
            f"{where}.partition_by and buckets with bucket_by declare the same; take one of them"
        )
    found = []
    for text in given if isinstance(given, (list, tuple)) and given else [given]:
        try:
            found.append(Transform.read(text))
        except ValueError as exc:
            problems.append(f"{where}.partition_by {exc}")
    return tuple(found)


def partition_problems(
    where: str, partition_by: Iterable[Transform], key: Sequence[str]
) -> list[str]:
    """Transforms of columns that aren't the key's."""
    return [
        f"{where}.partition_by: {transform} must be of a column of the key, which are "
        f"{', '.join(key)}"
        for transform in partition_by
        if key and transform.column not in key
    ]
