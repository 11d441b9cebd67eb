"""The check of `meta.source`: what a typed ODS model declares of its source table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from python_udfs.ingestion.formats.registry import FORMATS
from python_udfs.ingestion.tables.log_resets import log_resets
from python_udfs.ingestion.tables.source import TableSource
from python_udfs.ingestion.tables.types import source_type

if TYPE_CHECKING:
    from python_udfs.ingestion.tables.types import SourceType

REQUIRED = ("database", "table", "primary_key", "columns")
OPTIONAL = (
    "cut_column",
    "columns_of_interest",
    "required_columns",
    "aliases",
    "schema_version",
    "topic",
    "format",
    "options",
    "log_resets",
)
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


def _names(setting: str, value: Any) -> tuple[tuple[str, ...], list[str]]:
    """The names that a setting holds, one or a list of them; and what is wrong with it."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or any(not isinstance(one, str) for one in names):
        return (), [f"`{setting}` must be a name or a list of names, got {value!r}"]
    return tuple(names), []


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
        # `primary_key: []` says that the table has none
        if not meta.get(name) and not (name == "primary_key" and meta.get(name) == [])
    ]
    problems += [
        f"`{name}` is not known (known: {', '.join(REQUIRED + OPTIONAL)})"
        for name in meta
        if name not in REQUIRED + OPTIONAL
    ]
    format_name = meta.get("format", "maxwell")
    format_name = format_name if isinstance(format_name, str) else repr(format_name)
    if format_name not in FORMATS:
        problems.append(f"`format` must be one of {', '.join(FORMATS)}, got {format_name!r}")
    module = FORMATS.get(format_name)
    if meta.get("primary_key") == [] and not getattr(module, "WHOLE_IMAGES", True):
        problems.append(f"`primary_key` is empty, and {format_name} tells a delete by its key")
    taken = TAKEN | set(getattr(module, "EXTRA", {}))
    options, wrong = _options(meta.get("options") or {}, module)
    problems += wrong
    resets, wrong = log_resets(meta.get("log_resets"), module)
    problems += wrong
    columns: dict[str, SourceType] = {}
    declared = meta.get("columns")
    if declared and not isinstance(declared, dict):
        problems.append("`columns` must map each name to its MySQL type")
        declared = {}
    seen: set[str] = set()
    for name, kind in (declared or {}).items():
        if str(name).lower() in seen or "`" in str(name):
            problems.append(f"column `{name}`: names must differ in more than case and hold no `")
        seen.add(str(name).lower())
        if str(name).lower() in taken or str(name).lower().startswith("metadata_"):
            problems.append(f"column `{name}`: the typed row has a column of that name; alias it")
        try:
            columns[str(name)] = source_type(str(kind))
        except ValueError as exc:
            problems.append(f"column `{name}`: {exc}")
    lists = {}
    for name in ("primary_key", "columns_of_interest", "required_columns", "topic"):
        value = meta.get(name) or []
        lists[name], wrong = _names(name, value)
        problems += wrong
        problems += [
            f"`{name}` names `{column}`, which is not among `columns`"
            for column in lists[name]
            if name != "topic" and column not in (declared or {})
        ]
    cut = meta.get("cut_column")
    if cut is not None and not isinstance(cut, str):
        problems.append(f"`cut_column` must be the name of a column, got {cut!r}")
    elif cut is not None and cut not in (declared or {}):
        problems.append(f"`cut_column` names `{cut}`, which is not among `columns`")
    elif cut in columns and columns[cut].kind not in ("date", "datetime", "timestamp"):
        problems.append(f"`cut_column` `{cut}` must be a date or a time, is {declared[cut]}")
    aliases = {}
    renamed = meta.get("aliases") or {}
    if not isinstance(renamed, dict):
        problems.append("`aliases` must map a column to its other names in the log")
        renamed = {}
    for name, others in renamed.items():
        if name not in (declared or {}):
            problems.append(f"`aliases` names `{name}`, which is not among `columns`")
        aliases[str(name)], wrong = _names(f"aliases.{name}", others)
        problems += wrong
        for other in aliases[str(name)]:
            # MySQL's names have no case: the column may have been renamed by it
            own = str(other).lower() == str(name).lower() and str(other) != str(name)
            if (str(other).lower() in seen and not own) or "`" in str(other):
                problems.append(f"alias `{other}` of `{name}`: taken by another column, or holds `")
            seen.add(str(other).lower())
    version = meta.get("schema_version", 1)
    if not isinstance(version, int) or isinstance(version, bool):
        problems.append(f"`schema_version` must be a whole number, got {version!r}")
    if problems:
        raise ValueError(f"{model}: meta.source has problems: {'; '.join(problems)}. {EXAMPLE}")
    return TableSource(
        database=str(meta["database"]),
        table=str(meta["table"]),
        columns=columns,
        primary_key=lists["primary_key"],
        cut_column=cut,
        columns_of_interest=lists["columns_of_interest"],
        required_columns=lists["required_columns"],
        aliases=aliases,
        schema_version=version,
        topics=lists["topic"],
        format=format_name,
        options=options,
        log_resets=tuple(resets),
    )


def _options(given: Any, module: Any) -> tuple[dict[str, str], list[str]]:
    """`options` with the defaults of the format's OPTIONS, and what is wrong with them.

    OPTIONS: name -> values that it may have, the default first.
    """
    known: dict[str, tuple[str, ...]] = getattr(module, "OPTIONS", {})
    if not isinstance(given, dict):
        return {}, [f"`options` must map names to values, got {given!r}"]
    problems = [
        f"option `{name}` is not known (known: {', '.join(known) or 'none'})"
        for name in given
        if name not in known
    ]
    options = {name: str(given.get(name, values[0])) for name, values in known.items()}
    problems += [
        f"option `{name}` must be one of {', '.join(known[name])}, got {value!r}"
        for name, value in options.items()
        if value not in known[name]
    ]
    return options, problems
