"""Row messages of Canal and Debezium, and events, by chance: made of Maxwell's in mutated_rows."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

from python_udfs.ingestion.tables.source import TableSource
from tests.support.lines import TS, source
from tests.support.mutated_rows import (
    MEMBER_CHANGES,
    ORDERS,
    TEXT_CHANGES,
    TYPES,
    VALUES,
    ZERO_TIMES,
    Message,
    NumberText,
    image_in,
    members,
    row_message,
)

Convert = Callable[[random.Random, TableSource, list[Message], int], str]
LABELS = "set('x','y,z','it''s')"
# nothing of MySQL's types is left out that these formats write otherwise; names of a message's own
ENCODED = {
    **{name: kind.declared for name, kind in TYPES.columns.items()},
    "flags": LABELS,
    "on_off": "bit(1)",
    "total": "bigint unsigned",
    "at": "datetime",
    "clock": "time(3)",
    "price": "decimal(12,2)",
    "payload": "int",
    "after": "varchar(9)",
}


# instants of events: numbers, texts with a zone, local times
INSTANTS = {"logged_at": "timestamp(3)", "received_at": "timestamp(3)", "shown_at": "datetime(3)"}


def _columns(table: TableSource) -> dict[str, str]:
    return {name: kind.declared for name, kind in table.columns.items()}


def tables_of(log_format: str) -> dict[str, TableSource]:
    """Tables of a format, by a name for each."""
    if log_format == "events":
        return {name: _events(table) for name, table in (("orders", ORDERS), ("types", TYPES))}
    both = {"orders": (ORDERS, {}), "types": (source(ENCODED, cut_column="day"), {})}
    if log_format == "debezium":
        exact = {"decimal.handling.mode": "string", "bigint.unsigned.handling.mode": "precise"}
        exact["time.precision.mode"] = "microseconds"
        # with another number of columns, so with a schema beside each message
        wrapped = {**ENCODED, "source": "int"}
        both["exact"] = (source(wrapped, cut_column="day"), exact)
    found = {}
    for name, (table, options) in both.items():
        found[name] = source(
            _columns(table),
            cut_column=table.cut_column,
            columns_of_interest=list(table.columns_of_interest),
            format=log_format,
            options=options,
        )
    return found


def _events(table: TableSource) -> TableSource:
    """Events with the columns of a table, and further instants."""
    columns = _columns(table) | (INSTANTS if table is TYPES else {"update_time": "timestamp(3)"})
    return source(
        columns,
        database="events",
        table="t",
        cut_column=table.cut_column,
        format="events",
        aliases=table.aliases,
    )


def canal_message(
    chance: random.Random, table: TableSource, rows: list[Message], number: int
) -> str:
    """Rows of one statement as Canal writes them."""
    columns = _columns(table)
    kind = rows[0].get("type", '""').strip('"').upper()

    def text(name: str, value: str) -> str:
        declared = columns.get(name, "")
        if declared.startswith(("enum", "set")) and value != "null":
            return f'"{chance.choice([0, 1, 2])}"'
        is_number = value[:1] in "-0123456789"
        return f'"{value}"' if is_number else value

    def image(row: Message, part: str) -> str:
        return members({name: text(name, found) for name, found in image_in(row, part).items()})

    some = [row for row in rows if "data" in row]
    old = [image(row, "old") for row in some] if kind == "UPDATE" else None
    return members(
        {
            "data": f"[{','.join(image(row, 'data') for row in some)}]",
            "database": '"shop"',
            "es": str(1000 * TS + number),
            "id": str(number),
            "isDdl": "false",
            "mysqlType": json.dumps(columns, ensure_ascii=False, separators=(",", ":")),
            "old": "null" if old is None else f"[{','.join(old)}]",
            "pkNames": '["id"]',
            "sql": '""',
            "sqlType": members(dict.fromkeys(columns, "-5")),
            "table": '"o"',
            "ts": str(1000 * TS + number + 200),
            "type": f'"{kind}"',
        }
    )


def debezium_message(
    chance: random.Random, table: TableSource, rows: list[Message], number: int
) -> str:
    """A row as Debezium writes it; half of the tables' messages have a schema."""
    columns, options = _columns(table), table.options
    row = rows[0]
    kind = row.get("type", '""').strip('"')

    def image(values: dict[str, str]) -> str:
        return members(
            {name: encoded(value, columns.get(name, ""), options) for name, value in values.items()}
        )

    data, old = (image_in(row, part) for part in ("data", "old"))
    payload = {
        "before": "null" if kind == "insert" else image(data | old),
        "after": "null" if kind == "delete" else image(data),
        "source": members(
            {
                "version": '"3.5.0.Final"',
                "connector": '"mysql"',
                "ts_ms": str(1000 * TS),
                "snapshot": '"false"',
                "db": '"shop"',
                "sequence": "null",
                "table": '"o"',
                "file": '"bin.000007"',
                "pos": str(1000 + number),
                "row": "0",
            }
        ),
        "transaction": "null",
        "op": f'"{kind[:1].replace("i", "c")}"',
        "ts_ms": str(1000 * TS + 200),
    }
    if len(table.columns) % 2:
        return members(payload)
    fields = [{"type": "string", "optional": True, "field": name} for name in columns]
    schema = {"type": "struct", "fields": fields, "optional": False, "name": "shop.o", "version": 1}
    whole = {"type": "struct", "fields": [{"field": "before", **schema}, schema]}
    return members(
        {"schema": json.dumps(whole, separators=(",", ":")), "payload": members(payload)}
    )


def event(chance: random.Random, table: TableSource, rows: list[Message], number: int) -> str:
    """An event as an application logs it."""
    row = image_in(rows[0], "data")
    columns = _columns(table)

    def written(name: str, value: str) -> str:
        if not columns.get(name, "").startswith("timestamp"):
            return value
        try:
            read = json.loads(value)
            moment = datetime.fromisoformat(read).replace(tzinfo=UTC)
        except (ValueError, TypeError, AttributeError):
            # an application has no 0000-00-00
            return "null" if value[1:20] in ZERO_TIMES else value
        if name in ("logged_at", "update_time"):
            return str(int(moment.timestamp()) * 1000 + number % 1000)
        # the last second of the year 9999 is over in the west
        zone = "Z" if read >= "9999" else ("Z", "Z", "Z", "+08:00", "-03:30")[number % 5]
        return f'"{read.replace(" ", "T")}{zone}"'

    found = {name: written(name, value) for name, value in row.items()}
    beside = {"event_id": f'"{number}"', "received_at": str(1000 * TS + number), "level": "3.50"}
    # null would be no event; no collector's clock is in the year 9999, whose last day ends in 10000
    if found.get("received_at", "")[:5] in ("null", '"9999'):
        found["received_at"] = '"2026-03-02T02:00:00Z"'
    return members(beside | found)


def encoded(value: str, declared: str, options: dict[str, str]) -> str:
    """JSON as Maxwell writes it, as Debezium writes it; what is no value of the type as it is."""
    name, _, rest = declared.partition("(")
    digits = rest.partition(")")[0]
    try:
        read = json.loads(value, parse_int=NumberText, parse_float=NumberText)
        if read is None or declared == "":
            return value
        return _encoded(read, value, name.split()[0], digits, declared, options)
    except (ValueError, InvalidOperation, OverflowError, TypeError, AttributeError, RecursionError):
        return value


def _encoded(
    read: str, value: str, name: str, digits: str, declared: str, options: dict[str, str]
) -> str:
    mode = options["time.precision.mode"]
    if name == "decimal":
        if options["decimal.handling.mode"] == "string":
            return f'"{read}"'
        scale = int(digits.partition(",")[2] or 0)
        return f'"{_signed(int(Decimal(read).scaleb(scale)))}"'
    if declared == "bigint unsigned":
        number = int(read)
        if options["bigint.unsigned.handling.mode"] == "precise":
            return f'"{_signed(number)}"'
        return str(number - 2**64 if number >= 2**63 else number)
    if name == "bit":
        if digits == "1":
            return "true" if int(read) else "false"
        return f'"{base64.b64encode(int(read).to_bytes(1, "little")).decode()}"'
    if name == "time":
        # the generator's texts are any: a time of the day made of their hash
        micros = sum(map(ord, read)) * 1_234_567_000
        return str(micros % 10**11 // 10**6 * 10**6)
    if name in ("date", "datetime", "timestamp") and read[5:] > "" and not _is_day(read):
        return "null"
    if name == "date":
        return str(datetime.fromisoformat(read).toordinal() - 719163)
    if name in ("datetime", "timestamp"):
        moment = datetime.fromisoformat(read).replace(tzinfo=UTC)
        if name == "timestamp":
            return f'"{read.replace(" ", "T")}Z"'
        micros = round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000) * 1000
        return str(micros if mode == "microseconds" else micros // 1000)
    return value


def _is_day(text: str) -> bool:
    """Whether the calendar has it, else Debezium writes null."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _signed(number: int) -> str:
    size = number.bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


CONVERT: dict[str, Convert] = {
    "canal": canal_message,
    "debezium": debezium_message,
    "events": event,
}


def normal(seed: int, table: TableSource, count: int) -> list[str]:
    """Messages as the table's producer writes them."""
    chance = random.Random(seed)
    return [_message(chance, table, number, []) for number in range(count)]


def mutated(seed: int, table: TableSource, count: int) -> list[bytes]:
    """Messages of which nearly each has something in it that nobody writes."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        changes = [chance.choice(MEMBER_CHANGES) for _ in range(chance.choice([0, 1, 1, 1, 2]))]
        text = _message(chance, table, number, changes)
        for _ in range(chance.choice([0, 0, 1, 1, 2, 4])):
            text = chance.choice([*TEXT_CHANGES, _other_value])(chance, text)
        line = text.encode("utf-8", "surrogatepass")
        if chance.random() < 0.03:
            place = chance.randrange(len(line) + 1)
            line = line[:place] + bytes([chance.randrange(256)]) + line[place:]
        found.append(line)
    return found


def _message(chance: random.Random, table: TableSource, number: int, changes: list) -> str:
    """A message of one row, or of some in Canal."""
    rows = [row_message(chance, table, number)]
    if table.format == "canal":
        while len(rows) < chance.choice([1, 1, 2, 3]):
            other = row_message(chance, table, number)
            if other["type"] == rows[0]["type"]:
                rows.append(other)
    for change in changes:
        place = chance.randrange(len(rows))
        rows[place] = change(chance, table, rows[place])
    return CONVERT[table.format](chance, table, rows, number)


def _other_value(chance: random.Random, text: str) -> str:
    """Another value behind one of the message's colons."""
    places = [place for place, sign in enumerate(text) if sign == ":"]
    if not places:
        return text
    begin = chance.choice(places) + 1
    end = min(
        (place for place in (text.find(sign, begin) for sign in ",}]") if place > 0),
        default=len(text),
    )
    return text[:begin] + chance.choice(VALUES) + text[end:]
