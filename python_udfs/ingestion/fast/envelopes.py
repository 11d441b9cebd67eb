"""The envelopes of messages, as formats.<format>.envelope reads them, of many at once.

What isn't proven, beyond what `lines` and `parsing` leave: whatever has a reason to be refused;
statements; a member of the envelope in another JSON type than its producer writes; a binlog
position of other characters than those of printable ASCII; Debezium's rows of snapshots and of
PostgreSQL, which are numbered by a hash of their content.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from python_udfs.ingestion.fast.events import ISO
from python_udfs.ingestion.fast.lines import object_lines, proven_lines
from python_udfs.ingestion.fast.parsing import parsed, parsed_texts
from python_udfs.ingestion.fast.texts import bytes_of, read_instants
from python_udfs.ingestion.formats import canal, events, maxwell
from python_udfs.ingestion.formats.debezium import envelopes as debezium
from python_udfs.ingestion.formats.envelope import ROW_OPS
from python_udfs.ingestion.formats.json_lines import LATEST_TS

Columns = dict[str, pa.Array]
# lines and their messages' places -> numbers of the proven lines, int64, in order, and the columns
# of formats.envelope of each, but for the reason that none of them has
Read = Callable[[pa.StringArray, "Places"], tuple[np.ndarray, Columns]]
Places = Mapping[str, pa.Array]  # topic, partition_number and message_offset of each line
Judged = tuple[np.ndarray, Columns]  # a mask of what is proven, and its columns

TIME = pa.timestamp("us", "UTC")
_MILLI, _SECOND = 1_000, 1_000_000  # in microseconds
_FILE = re.compile(r"(?:[!-~]*[^0-9])?([0-9]{1,18})", re.ASCII)
_LONGEST_NUMBER = 18  # digits
_CHANGE_OPS = pa.array(ROW_OPS)


def _schema(**members: pa.DataType) -> pa.Schema:
    return pa.schema(list(members.items()))


_TEXT, _LONG, _BOOLEAN, _ABSENT = pa.string(), pa.int64(), pa.bool_(), pa.null()
_SOME = pa.list_(pa.struct([]))  # objects, of which none is looked into
_OF_MAXWELL = _schema(
    database=_TEXT,
    table=_TEXT,
    type=_TEXT,
    ts=_LONG,
    xid=_LONG,
    xoffset=_LONG,
    commit=_BOOLEAN,
    position=_TEXT,
)
_OF_CANAL = _schema(
    database=_TEXT, table=_TEXT, type=_TEXT, es=_LONG, isDdl=_BOOLEAN, data=_SOME, old=_SOME
)
_SOURCE = _schema(
    connector=_TEXT,
    db=_TEXT,
    schema=_TEXT,
    table=_TEXT,
    snapshot=_TEXT,
    ts_us=_LONG,
    ts_ms=_LONG,
    file=_TEXT,
    pos=_LONG,
    row=_LONG,
    lsn=_LONG,
    txId=_LONG,
)
_BODY = _schema(
    op=_TEXT,
    ts_ms=_LONG,
    status=_TEXT,
    ddl=_TEXT,
    databaseName=_TEXT,
    tableChanges=_ABSENT,
    source=pa.struct(list(_SOURCE)),
)
_OF_DEBEZIUM = pa.schema([*_BODY, pa.field("payload", pa.struct(list(_BODY)))])
_TEXTS_OF_EVENTS = _schema(received_at=_TEXT)
_MILLIS_OF_EVENTS = _schema(received_at=_LONG)


def _reader(schema: pa.Schema, judge: Callable[[pa.StructArray, Places], Judged]) -> Read:
    """What reads envelopes whose members have a schema, judged by `judge`."""

    def read(texts: pa.StringArray, places: Places) -> tuple[np.ndarray, Columns]:
        kept, head = _heads(texts, schema)
        if head is None:
            return kept[:0], {}
        if len(kept) < len(texts):
            places = {name: values.take(pa.array(kept)) for name, values in places.items()}
        right, columns = judge(head, places)
        if right.all():
            return kept, columns
        mask = pa.array(right)
        return kept[right], {name: values.filter(mask) for name, values in columns.items()}

    return read


def _maxwell(head: pa.StructArray, places: Places) -> Judged:
    op = _named(head.field("type"), maxwell.OPS)
    is_change = np.asarray(pc.is_in(op, _CHANGE_OPS))
    ts, xoffset = head.field("ts"), head.field("xoffset")
    place, has_place, is_odd = _positions(head.field("position"))
    known = _within(xoffset, 0, maxwell.LAST_ROW - 1)
    number = pc.if_else(pa.array(known), xoffset, pa.scalar(None, _LONG))
    last = pc.fill_null(head.field("commit"), False)
    number = pc.if_else(last, pc.fill_null(number, maxwell.LAST_ROW), number)
    right = _there(op, head.field("database"), head.field("table")) & _within(ts, 0, LATEST_TS)
    right &= ~is_odd & (~is_change | (has_place & _there(number)))
    return right, {
        "database_name": head.field("database"),
        "table_name": head.field("table"),
        "op": op,
        "event_time": _time(ts, right, _SECOND),
        **place,
        "row_number": number,
        "xid": head.field("xid"),
    }


def _canal(head: pa.StructArray, places: Places) -> Judged:
    rows = {kind: op for kind, op in canal.OPS.items() if op in ROW_OPS}
    op, es = _named(head.field("type"), rows), head.field("es")
    data, old = (_sizes(head.field(name)) for name in ("data", "old"))
    right = _there(op, head.field("database"), head.field("table"))
    right &= _within(es, 0, LATEST_TS * 1000) & (data > 0)
    right &= ~_equal(op, "update") | (old == data)
    return right, {
        "database_name": head.field("database"),
        "table_name": head.field("table"),
        "op": op,
        "event_time": _time(es, right, _MILLI),
        **_in_topic(places),
    }


def _debezium(head: pa.StructArray, places: Places) -> Judged:
    *outer, bodies = head.flatten()
    if bodies.null_count:  # without a schema beside them
        without = pa.StructArray.from_arrays(outer, fields=list(_BODY))
        bodies = pc.if_else(pc.is_valid(bodies), bodies, without)
    body = dict(zip(_BODY.names, bodies.flatten(), strict=True))
    source = dict(zip(_SOURCE.names, body["source"].flatten(), strict=True))
    rows = {kind: op for kind, op in debezium.OPS.items() if op in ROW_OPS}
    op = _named(body["op"], rows)
    time, in_time = _debezium_time(source["ts_us"], source["ts_ms"], body["ts_ms"])
    file, number, is_odd = _files(source["file"])
    # its option to skip nulls loses rows where all are null
    joined = pc.binary_join_element_wise(source["schema"], source["table"], ".")
    table = pc.coalesce(joined, source["table"])
    in_log = _equal(pc.fill_null(source["snapshot"], debezium.MADE_BY_LOG), debezium.MADE_BY_LOG)
    right = _there(op, source["db"], source["table"], file) & in_time & in_log & ~is_odd
    right &= ~_equal(source["db"], "")
    right &= _within(source["pos"], 0, None) & _within(source["row"], 0, 2**debezium.HASH_BITS)
    creates = np.asarray(pc.fill_null(pc.equal(op, "insert"), False)).astype(np.int64)
    row = pc.fill_null(source["row"], 0).to_numpy()
    return right, {
        "database_name": source["db"],
        "table_name": table,
        "op": op,
        "event_time": _time(time, right, 1),
        "binlog_file": file,
        "binlog_file_number": number,
        "binlog_position": source["pos"],
        "row_number": pa.array(np.where(right, row, 0) * 2 + creates),
        "xid": source["txId"],
    }


def _debezium_time(
    micros: pa.Int64Array, millis: pa.Int64Array, processed: pa.Int64Array
) -> tuple[pa.Int64Array, np.ndarray]:
    """Microseconds since 1970, and a mask of those that are a time."""
    latest = LATEST_TS * 1000 + 999
    time, right = _in_micros(processed, _MILLI), _within(processed, 1, latest)
    for counts, size, most in ((millis, _MILLI, latest), (micros, 1, latest * 1000 + 999)):
        given = np.asarray(pc.fill_null(pc.not_equal(counts, 0), False))
        time = pc.if_else(pa.array(given), _in_micros(counts, size), time)
        right = np.where(given, _within(counts, 1, most), right)
    return time, right


def _events(texts: pa.StringArray, places: Places) -> tuple[np.ndarray, Columns]:
    """As _reader's; the times of a batch are numbers, or else they are texts."""
    by_millis = _events_by_millis(texts, places)
    if len(by_millis[0]) * 2 >= len(texts):
        return by_millis
    by_texts = _events_by_texts(texts, places)
    return max(by_millis, by_texts, key=lambda found: len(found[0]))


def _by_millis(head: pa.StructArray, places: Places) -> Judged:
    received = head.field("received_at")
    right = _within(received, 0, LATEST_TS * 1000 + 999)
    return _event(_time(received, right, _MILLI), right, places)


def _by_texts(head: pa.StructArray, places: Places) -> Judged:
    time = read_instants(ISO, head.field("received_at"))
    right = _there(time.typed)
    if time.odd is not None:
        right &= ~time.odd
    return _event(time.typed, right, places)


def _event(time: pa.TimestampArray, right: np.ndarray, places: Places) -> Judged:
    tables = {name: _table_of(name) for name in pc.unique(places["topic"]).to_pylist()}
    database, table = (
        _looked_up(places["topic"], {name: found[part] for name, found in tables.items() if found})
        for part in (0, 1)
    )
    return right & _there(database, table), {
        "database_name": database,
        "table_name": table,
        "op": pa.repeat("insert", len(right)),
        "event_time": time,
        **_in_topic(places),
    }


def _table_of(topic: str) -> tuple[str, str] | None:
    """Database and name of the table of a topic's events; None where it isn't proven."""
    if not (topic.isascii() and topic.isprintable()):
        return None
    database, _, table = topic.rpartition(".")
    return (database if database and table else events.DATABASE), table


_events_by_millis = _reader(_MILLIS_OF_EVENTS, _by_millis)
_events_by_texts = _reader(_TEXTS_OF_EVENTS, _by_texts)


def _heads(texts: pa.StringArray, schema: pa.Schema) -> tuple[np.ndarray, pa.StructArray | None]:
    """The lines whose members are read, and these."""
    kept, lines = object_lines(texts)
    rows, head = parsed_texts(lines, schema)
    try:
        if head is not None:
            head.validate(full=True)
        return kept[rows], head
    except pa.ArrowInvalid:  # half a character in some text
        kept, proven = proven_lines(texts)
        if proven is None:
            return kept, None
        rows, head = parsed(proven, np.arange(len(kept)), schema)
        return kept[rows], head


READ: dict[str, Read] = {
    "maxwell": _reader(_OF_MAXWELL, _maxwell),
    "canal": _reader(_OF_CANAL, _canal),
    "debezium": _reader(_OF_DEBEZIUM, _debezium),
    "events": _events,
}


def _in_topic(places: Places) -> Columns:
    """The position of a format without a binlog: the message's own place."""
    partition = places["partition_number"].cast(_TEXT)
    count = len(partition)
    zeros = pa.repeat(pa.scalar(0, _LONG), count)
    return {
        "binlog_file": pc.binary_join_element_wise(places["topic"], partition, "/"),
        "binlog_file_number": zeros,
        "binlog_position": places["message_offset"],
        "row_number": zeros,
        "xid": pa.nulls(count, _LONG),
    }


def _positions(texts: pa.StringArray) -> tuple[Columns, np.ndarray, np.ndarray]:
    """Maxwell's positions `file:n`: their columns, a mask of those that are there, and of those
    that are there and not proven."""
    there = np.asarray(pc.fill_null(pc.match_substring(texts, ":"), False))
    odd = _there(texts) & ~there
    given = texts if there.all() else texts.filter(pa.array(there))
    parts = pc.split_pattern(given, ":", max_splits=1, reverse=True).flatten()
    even = np.arange(0, len(parts), 2)
    file, number, wrong = _files(parts.take(pa.array(even)))
    digits = parts.take(pa.array(even + 1))
    sizes = pc.binary_length(digits).to_numpy()
    signs = bytes_of(digits)
    if not ((signs >= ord("0")) & (signs <= ord("9"))).all():
        wrong |= ~np.asarray(pc.match_substring_regex(digits, "^[0-9]+$"))
    wrong |= (sizes == 0) | (sizes > _LONGEST_NUMBER)
    if wrong.any():
        digits = pc.if_else(pa.array(wrong), "0", digits)
    columns = {
        "binlog_file": file,
        "binlog_file_number": number,
        "binlog_position": digits.cast(_LONG),
    }
    if not there.all():
        place = np.cumsum(there) - 1
        at = pa.array(np.where(there, place, 0), mask=~there)
        columns = {name: values.take(at) for name, values in columns.items()}
    odd[there] |= wrong
    return columns, there, odd


def _files(names: pa.StringArray) -> tuple[pa.StringArray, pa.Int64Array, np.ndarray]:
    """Names of binlog files: as they are, their number, and a mask of those that aren't proven."""
    numbers: dict[str, int | None] = {}
    for name in pc.unique(names.drop_null()).to_pylist():
        found = _FILE.fullmatch(name)
        numbers[name] = int(found[1]) if found else None
    number = _looked_up(names, numbers, _LONG)
    return names, number, np.asarray(pc.is_valid(names)) & ~np.asarray(pc.is_valid(number))


def _named(kinds: pa.StringArray, ops: Mapping[str, str]) -> pa.StringArray:
    """The op of each of a producer's names; null for others."""
    return _looked_up(kinds, ops)


def _looked_up(
    texts: pa.StringArray, values: Mapping[str, object], kind: pa.DataType = _TEXT
) -> pa.Array:
    """What each text stands for; null for others."""
    keys = pa.array(list(values), _TEXT)
    return pa.array(list(values.values()), kind).take(pc.index_in(texts, keys))


def _sizes(lists: pa.ListArray) -> np.ndarray:
    return pc.fill_null(pc.list_value_length(lists), -1).to_numpy()


def _equal(texts: pa.StringArray, text: str) -> np.ndarray:
    return np.asarray(pc.fill_null(pc.equal(texts, text), False))


def _there(*arrays: pa.Array) -> np.ndarray:
    """Mask of the rows in which none of the values is null."""
    masks: Sequence[np.ndarray] = [np.asarray(pc.is_valid(values)) for values in arrays]
    return reduce(np.logical_and, masks)


def _within(numbers: pa.Int64Array, least: int, most: int | None) -> np.ndarray:
    """Mask of the numbers between two bounds, both included."""
    found = pc.greater_equal(numbers, least)
    if most is not None:
        found = pc.and_(found, pc.less_equal(numbers, most))
    return np.asarray(pc.fill_null(found, False))


def _in_micros(counts: pa.Int64Array, size: int) -> pa.Int64Array:
    """Counts of so many microseconds; some number where that is out of range."""
    return pc.multiply(counts, size)


def _time(counts: pa.Int64Array, right: np.ndarray, size: int) -> pa.TimestampArray:
    """Instants by counts of so many microseconds, null where they aren't right."""
    return pc.if_else(pa.array(right), _in_micros(counts, size), None).cast(TIME)
