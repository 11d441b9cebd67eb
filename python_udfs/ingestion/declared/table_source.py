"""The check of `meta.source`: what a typed ODS model declares of its source table."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Annotated, Any

from pydantic import Field, StrictInt, StrictStr

from python_udfs.ingestion.declared.fields import Fields, Names, TextKeys
from python_udfs.ingestion.formats.registry import FORMATS
from python_udfs.ingestion.tables.log_resets import log_resets
from python_udfs.ingestion.tables.source import TableSource
from python_udfs.ingestion.tables.types import SourceType, source_type

REQUIRED = ("database", "table", "primary_key", "columns")
# names that the typed row has already; the EXTRA columns of the table's format besides
TAKEN = {
    "op_type",
    "unique_key",
    "before",
    "raw_values",
    "cut_date",
    "event_time",
    "binlog_file",
    "binlog_file_number",
    "binlog_position",
    "row_number",
    "xid",
    "schema_version",
    "batch_id",
    "topic",
    "partition_number",
    "message_offset",
    "load_id",
    "reject_reason",
    "reject_payload",
}
EXAMPLE = (
    "Example: meta: {source: {database: shop, table: coupon, primary_key: [user_id], "
    "columns: {user_id: bigint unsigned, state: varchar(10)}}}"
)
NAMES = Field(description="be a name or a list of names")


class Declaration(Fields):
    """`meta.source` of a model, as far as each field can be judged by itself; see TableSource."""

    database: Any = None
    table: Any = None
    primary_key: Annotated[Names, NAMES] = ()
    columns: Annotated[
        dict[str, Any], TextKeys, Field(description="map each name to its MySQL type")
    ] = {}
    cut_column: Annotated[StrictStr | None, Field(description="be the name of a column")] = None
    columns_of_interest: Annotated[Names, NAMES] = ()
    required_columns: Annotated[Names, NAMES] = ()
    aliases: Annotated[
        dict[str, Names],
        TextKeys,
        Field(description="map a column to its other names in the log", title=NAMES.description),
    ] = {}
    schema_version: Annotated[StrictInt, Field(description="be a whole number")] = 1
    topic: Annotated[Names, NAMES] = ()
    format: Any = "maxwell"
    options: Annotated[dict[str, Any], TextKeys, Field(description="map names to values")] = {}
    log_resets: Any = None


def table_source(model: str, meta: Any) -> TableSource:
    """Check and read `meta.source` of a model.

    Args:
        model: the model's name, for the message.
        meta: the mapping from YAML.

    Raises:
        ValueError: all problems in one message.
    """
    if not isinstance(meta, dict):
        raise ValueError(f"{model}: meta.source must be a mapping, got {meta!r}. {EXAMPLE}")
    problems = [
        f"`{name}` is missing"
        for name in REQUIRED
        # `primary_key: []`: the table has no key
        if not meta.get(name) and not (name == "primary_key" and meta.get(name) == [])
    ]
    # what is empty is as if it weren't there
    absent = {name for name in Declaration.model_fields if not meta.get(name)}
    absent -= {"format", "schema_version"}
    if meta.get("cut_column") is not None:
        absent.discard("cut_column")
    declared, wrong = Declaration.read({k: v for k, v in meta.items() if k not in absent})
    problems += wrong
    name = declared.format if isinstance(declared.format, str) else repr(declared.format)
    module = FORMATS.get(name)
    if module is None:
        problems.append(f"`format` must be one of {', '.join(FORMATS)}, got {name!r}")
    if meta.get("primary_key") == [] and not getattr(module, "WHOLE_IMAGES", True):
        problems.append(f"`primary_key` is empty, and {name} identifies a deleted row by its key")
    options = {
        option: str(declared.options.get(option, values[0]))
        for option, values in _options_of(module).items()
    }
    problems += _option_problems(declared, options, module)
    resets, wrong = log_resets(declared.log_resets, module)
    problems += wrong
    columns, wrong = _columns(declared, TAKEN | set(getattr(module, "EXTRA", {})))
    problems += [*wrong, *_reference_problems(declared, columns), *_alias_problems(declared)]
    if problems:
        raise ValueError(f"{model}: meta.source has problems: {'; '.join(problems)}. {EXAMPLE}")
    return TableSource(
        database=str(declared.database),
        table=str(declared.table),
        columns=columns,
        primary_key=declared.primary_key,
        cut_column=declared.cut_column,
        columns_of_interest=declared.columns_of_interest,
        required_columns=declared.required_columns,
        aliases=dict(declared.aliases),
        schema_version=declared.schema_version,
        topics=declared.topic,
        format=name,
        options=options,
        log_resets=tuple(resets),
    )


def _columns(declared: Declaration, taken: set[str]) -> tuple[dict[str, SourceType], list[str]]:
    """Column -> type, of those whose type is one; what is wrong with names and types.

    Args:
        taken: names in lower case that the typed row has already.
    """
    columns: dict[str, SourceType] = {}
    problems, seen = [], set()
    for name, kind in declared.columns.items():
        if name.lower() in seen or "`" in name:
            problems.append(f"column `{name}`: names must differ in more than case and hold no `")
        seen.add(name.lower())
        if name.lower() in taken or name.lower().startswith("metadata_"):
            problems.append(f"column `{name}`: the typed row has a column of that name; alias it")
        try:
            columns[name] = source_type(str(kind))
        except ValueError as exc:
            problems.append(f"column `{name}`: {exc}")
    return columns, problems


def _reference_problems(declared: Declaration, columns: dict[str, SourceType]) -> Iterator[str]:
    """What names columns that aren't declared, or that can't be what they are named for."""
    for name in ("primary_key", "columns_of_interest", "required_columns"):
        for column in getattr(declared, name):
            if column not in declared.columns:
                yield f"`{name}` names `{column}`, which is not among `columns`"
    cut = declared.cut_column
    if cut is not None and cut not in declared.columns:
        yield f"`cut_column` names `{cut}`, which is not among `columns`"
    elif cut in columns and columns[cut].kind not in ("date", "datetime", "timestamp"):
        yield f"`cut_column` `{cut}` must be a date or a time, is {declared.columns[cut]}"


def _alias_problems(declared: Declaration) -> Iterator[str]:
    taken = {name.lower() for name in declared.columns}
    for name, others in declared.aliases.items():
        if name not in declared.columns:
            yield f"`aliases` names `{name}`, which is not among `columns`"
        for other in others:
            # MySQL's names have no case: the column may have been renamed by it
            own = other.lower() == name.lower() and other != name
            if (other.lower() in taken and not own) or "`" in other:
                yield f"alias `{other}` of `{name}`: taken by another column, or holds `"
            taken.add(other.lower())


def _options_of(module: ModuleType | None) -> dict[str, tuple[str, ...]]:
    """What the format lets a table say of its producer: name -> values, the default first."""
    return getattr(module, "OPTIONS", {})


def _option_problems(
    declared: Declaration, options: dict[str, str], module: ModuleType | None
) -> Iterator[str]:
    known = _options_of(module)
    for name in declared.options:
        if name not in known:
            yield f"option `{name}` is not known (known: {', '.join(known) or 'none'})"
    for name, value in options.items():
        if value not in known[name]:
            yield f"option `{name}` must be one of {', '.join(known[name])}, got {value!r}"
