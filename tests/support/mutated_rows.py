"""Row messages of Maxwell by chance: as it writes them, and with what nobody writes in them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from python_udfs.ingestion.tables.source import TableSource
from tests.support.lines import TS, source

Message = dict[str, str]  # member -> JSON
WORDS = ["", " ", "paid", "中文，全角！", "null", "a,b;c|d", '{"a":1}', "}{", "[1,2]", "1.50", "-0"]
WORDS += ['say "no"', "\\", "\\\\", "C:\\dir\\", "line\nnext\r\t", "\0", "\x7f", "😀", "é"]
WORDS += ['","old":{"id":null},"x":"', '"data":{"id":null}', "?", "�", "\u2028", "1e5", "NaN"]
ZERO_TIMES = ["0000-00-00 00:00:00", "2026-02-30 12:00:00", "2026-00-10 00:00:00"]
ZERO_TIMES += ["2026-04-00 23:59:59"]
TIMES = ["1970-01-01 00:00:00", "1970-01-02 00:00:00", "9999-12-31 23:59:59", "1986-06-01 12:00:00"]
TIMES += ["2026-03-01 00:18:09", "2026-02-28 23:59:59", "2024-02-29 12:00:00"]
ODD_TIMES = [
    "0000-00-00",
    "2026-02-30",
    "0000-02-30",
    "2026-13-00",
    "2026-00-32",
    "1000-01-01 00:00:00",
    "2026-3-1",
    "2026-03-01T00:00:00",
    "",
]
ODD_TIMES += [
    "2026-03-01 00:00:00Z",
    "2026-03-01 00:00:00+01",
    "2026-03-01 00:00:00.",
    "0001-01-01",
]
ODD_TIMES += ["2026-03-01 24:00:00", "2026-03-01 23:59:60", "2026-03-01 00:00", "12026-03-01"]
ODD_TIMES += ["2026-03-01 00:00:00.1234567", "0999-12-31 00:00:00", "2026-W09-1", "２０２６-03-01"]
# JSON that may stand anywhere, as a value
VALUES = ["null", "true", "false", "0", "-0", "-0.0", "1.0", "1e2", "1E+2", "1e-30", "0.10", "5.5"]
VALUES += ["NaN", "-Infinity", "Infinity", "Inf", "-Inf", "01", "+1", ".5", "1.", "1e", "nul", "-"]
VALUES += [
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
]
VALUES += ["18446744073709551616", "12345678901234567.89", "99999999999.99", "0.005", "1e400", "-1"]
VALUES += ["2147483648", "255", "256", "65536", "1" * 40, "0." + "1" * 40, "1" * 1200, "1e99999"]
VALUES += ["0e99999", "1e-214748364", "1e-500", "1e-99999999999", "0e-2147483649"]
VALUES += ["1e-2147483648", "9999999999.995", "0.5e1"]
VALUES += [
    "49728795024063407889774029646",
    "16777217",
    "1.00000017881393432617",
    "1e-40",
    "1e39",
    "3.4028235e38",
    "0.100",
    "12.30",
]
VALUES += ["{}", "[]", "[1]", '{"a":null}', '["a","b"]', '[{"id":null}]', "[" * 1200 + "]" * 1200]
VALUES += ['"5"', '"1.50"', '""', '" "', '"{}"', '"\\ud83d"', '"\\ude00"', '"\\ud83d\\ude00"']
VALUES += ['"\\ude00\\ud83d"', '"\\u0000"', '"\\u0001\\u0002\\u0001"', '"\\u00e9"', '"\\x"', "'a'"]
VALUES += ['"\\/\\b\\f\\n\\r\\t"', '"a\tb"', '"\\\\"', '"\\\\\\""', '"AQI="', '"9999999999-01-01"']
VALUES += [
    json.dumps(text, ensure_ascii=False) for text in (*WORDS, *TIMES, *ODD_TIMES, *ZERO_TIMES)
]
VALUES += ['"\\\\u0001\\\\u0002\\\\u0001"', '"\\u0001"', '"\\u0002"', '"\\u0001\\u001F"']
SIGNS = [*'{}[]",:\\/ \t\n\r0123456789.eE+-ntfuNI', "null", "\ufeff", "\0", "é", "{}", "}{", ",,"]

ORDERS = source(
    {
        "id": "bigint unsigned",
        "user_id": "bigint unsigned",
        "product": "varchar(20)",
        "plat_name": "varchar(40)",
        "ref_id": "bigint",
        "amount": "decimal(12,2)",
        "status": "int",
        "comment": "text",
        "priority": "int",
        "create_time": "datetime(3)",
        "update_time": "datetime(3)",
        "finish_time": "datetime",
    },
    cut_column="update_time",
    columns_of_interest=["user_id", "status", "amount"],
)
# a column of every type that is read, names that mean something elsewhere, two names of a column
TYPES = source(
    {
        "id": "int unsigned",
        "old": "tinyint(1)",
        "data": "smallint unsigned",
        "medium": "mediumint",
        "bits": "bit(8)",
        "built": "year",
        "wide": "decimal(38,10)",
        "whole": "decimal(10,0)",
        "exact": "decimal(30,30)",
        "single": "float",
        "real": "double",
        "kind": "enum('a','b')",
        "took": "time",
        "document": "json",
        "day": "date",
        "seen_at": "timestamp(6)",
        "город": "varchar(9)",
        "a_name_of_more_than_sixteen_bytes": "char(5)",
        "a_name_of_more_than_sixteen_bits_": "char(5)",
    },
    cut_column="day",
    aliases={"medium": ["middle"]},
)


def value(random: random.Random, declared: str, name: str) -> str:
    """JSON of a value as Maxwell writes the type."""
    if name != "id" and random.random() < 0.15:
        return "null"
    kind = declared.partition("(")[0].split()[0]
    if kind in ("varchar", "char", "text", "enum", "set", "time", "json"):
        return json.dumps(random.choice(WORDS), ensure_ascii=random.random() < 0.2)
    if kind in ("datetime", "timestamp"):
        text = random.choice(TIMES) if random.random() < 0.2 else moment(random)
        text = random.choice(ZERO_TIMES) if random.random() < 0.02 else text
        digits = declared.partition("(")[2].rstrip(")")
        fraction = f".{random.randrange(10 ** int(digits)):0{digits}d}" if digits else ""
        return f'"{text}{fraction}"'
    if kind == "date":
        text = random.choice(ZERO_TIMES) if random.random() < 0.05 else moment(random)
        return f'"{text[:10]}"'
    if kind == "decimal":
        precision, scale = map(int, declared.partition("(")[2].rstrip(")").split(","))
        digits = str(random.randrange(10 ** random.randint(1, precision))).zfill(scale + 1)
        sign = random.choice(["", "-"]) if digits.strip("0") else ""
        return sign + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else str(int(digits)))
    if kind in ("float", "double"):
        some = random.uniform(-9, 9)
        some = float(f"{some:.9g}") if kind == "float" else some
        return repr(random.choice([0.5, 1.25, 3.0, 1e22, some, 12345.678]))
    if kind == "year":
        return str(random.randrange(1901, 2155))
    bits = {"tinyint": 7, "smallint": 16, "mediumint": 23, "int": 31, "bit": 8}.get(kind, 63)
    bits = 1 if declared == "bit(1)" else bits
    return str(random.randrange(2**bits))


def moment(random: random.Random) -> str:
    day, second = random.randint(1, 28), random.randrange(86400)
    clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return f"{random.choice([2025, 2026])}-{random.randint(1, 12):02d}-{day:02d} {clock}"


def members(fields: dict[str, str]) -> str:
    named = (f"{json.dumps(name, ensure_ascii=False)}:{text}" for name, text in fields.items())
    return "{" + ",".join(named) + "}"


def row_message(random: random.Random, table: TableSource, number: int) -> dict[str, str]:
    """A message as Maxwell writes it: member -> JSON."""
    kinds = {name: kind.declared for name, kind in table.columns.items()}
    row = {name: value(random, declared, name) for name, declared in kinds.items()}
    message = {
        "database": '"shop"',
        "table": '"o"',
        "type": f'"{random.choice(["insert", "update", "update", "update", "delete"])}"',
        "ts": str(TS + number),
        "xid": str(number),
        **({"commit": "true"} if random.random() < 0.3 else {"xoffset": str(number % 7)}),
        "position": f'"bin.000007:{1000 + number}"',
        "data": members(row),
    }
    if message["type"] == '"update"':
        changed = random.sample(sorted(kinds), random.randint(0, 4))
        old = {name: value(random, kinds[name], name) for name in changed}
        message["old"] = members(old)
    return message


def normal(seed: int, table: TableSource, count: int) -> list[str]:
    """Messages as Maxwell writes them."""
    chance = random.Random(seed)
    return [members(row_message(chance, table, number)) for number in range(count)]


def mutated(seed: int, table: TableSource, count: int) -> list[bytes]:
    """Messages of which nearly each has something in it that nobody writes."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        message = row_message(chance, table, number)
        for _ in range(chance.choice([0, 1, 1, 1, 2])):
            message = chance.choice(MEMBER_CHANGES)(chance, table, message)
        text = members(message)
        for _ in range(chance.choice([0, 0, 1, 1, 2, 4])):
            text = chance.choice(TEXT_CHANGES)(chance, text)
        line = text.encode("utf-8", "surrogatepass")
        if chance.random() < 0.03:
            place = chance.randrange(len(line) + 1)
            line = line[:place] + bytes([chance.randrange(256)]) + line[place:]
        found.append(line)
    return found


def _image(chance: random.Random, message: Message) -> tuple[str, dict[str, str]]:
    part = chance.choice([name for name in ("data", "old") if name in message] or ["data"])
    return part, image_in(message, part)


def image_in(message: Message, part: str) -> dict[str, str]:
    """Column -> JSON of an image; empty where it is none."""
    try:
        read = json.loads(message.get(part, ""), parse_int=NumberText, parse_float=NumberText)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(read, dict):
        return {}
    return {name: _json(found) for name, found in read.items()}


class NumberText(str):
    """A number as it is written."""


def _json(read: object) -> str:
    return str(read) if isinstance(read, NumberText) else json.dumps(read, ensure_ascii=False)


def _other_value(chance: random.Random, table: TableSource, message: dict) -> dict:
    part, row = _image(chance, message)
    if row:
        row[chance.choice(sorted(row))] = chance.choice(VALUES)
    return message | {part: members(row)}


def _in_old_alone(chance: random.Random, table: TableSource, message: dict) -> dict:
    row = {chance.choice(sorted(table.names_in_log())): chance.choice(VALUES) for _ in range(2)}
    return message | {"old": members(row)}


def _absent(chance: random.Random, table: TableSource, message: dict) -> dict:
    part, row = _image(chance, message)
    for name in chance.sample(sorted(row), min(len(row), 2)):
        del row[name]
    return message | {part: members(row)}


def _other_name(chance: random.Random, table: TableSource, message: dict) -> dict:
    """A name in another case, with a blank, escaped, an alias, or one that nobody declared."""
    part, row = _image(chance, message)
    if not row:
        return message
    name = chance.choice(sorted(row))
    new = chance.choice([name.upper(), name.title(), f" {name}", "middle", "x", "K", "", "data"])
    items = [(new if known == name else known, text) for known, text in row.items()]
    text = members(dict(items))
    if chance.random() < 0.3:
        text = text.replace(f'"{new}":', f'"\\u{ord((new or "q")[0]):04x}{new[1:]}":')
    return message | {part: text}


def _twice(chance: random.Random, table: TableSource, message: dict) -> dict:
    part, row = _image(chance, message)
    if not row:
        return message
    again = members({chance.choice(sorted(row)): chance.choice(VALUES)})
    inner = members(row)
    pair = [inner[1:-1], again[1:-1]]
    chance.shuffle(pair)
    return message | {part: "{" + ",".join(pair) + "}"}


def _extra(chance: random.Random, table: TableSource, message: dict) -> dict:
    part, row = _image(chance, message)
    row[chance.choice(["extra", "Id", "ID", "город2", "ГОРОД", "é", "AMOUNT"])] = chance.choice(
        VALUES
    )
    return message | {part: members(row)}


def _other_member(chance: random.Random, table: TableSource, message: dict) -> dict:
    name = chance.choice([*message, "old", "x", "def", "gtid"])
    return message | {name: chance.choice(VALUES)}


def _other_order(chance: random.Random, table: TableSource, message: dict) -> dict:
    names = list(message)
    chance.shuffle(names)
    return {name: message[name] for name in names}


MEMBER_CHANGES: list[Callable[[random.Random, TableSource, dict], dict]] = [
    *(_other_value, _other_value, _in_old_alone, _in_old_alone, _absent, _other_name, _twice),
    *(_extra, _other_member, _other_order),
]


def _sign(chance: random.Random, text: str) -> str:
    place = chance.randrange(len(text) + 1)
    return text[:place] + chance.choice(SIGNS) + text[place:]


def _sign_at_token(chance: random.Random, text: str) -> str:
    places = [place for place, sign in enumerate(text) if sign in '{}[]",:']
    place = chance.choice(places or [0]) + chance.randint(0, 1)
    return text[:place] + chance.choice(SIGNS) + text[place:]


def _space(chance: random.Random, text: str) -> str:
    try:
        read = json.loads(text, parse_int=NumberText, parse_float=NumberText)
    except (ValueError, RecursionError):
        return text
    if not isinstance(read, dict):
        return text
    place = chance.choice([place for place, sign in enumerate(text) if sign in "{},:"])
    blank = chance.choice([" ", "\t", "\n", "\r\n"])
    return text[: place + 1] + blank + text[place + 1 :]


def _cut(chance: random.Random, text: str) -> str:
    place = chance.randrange(len(text) + 1)
    return text[: place if chance.random() < 0.3 else max(place - 1, 0)] + (
        "" if chance.random() < 0.3 else text[place:]
    )


def _doubled(chance: random.Random, text: str) -> str:
    begin = chance.randrange(len(text) + 1)
    end = min(len(text), begin + chance.randint(1, 40))
    return text[:end] + text[begin:end] + text[end:]


def _glued(chance: random.Random, text: str) -> str:
    other = chance.choice([text, "null", "{}", "[]", "1", ",{}", "\n" + text, "," + text, " "])
    return text + other if chance.random() < 0.5 else other + text


def _swapped(chance: random.Random, text: str) -> str:
    place = chance.randrange(max(len(text) - 1, 1))
    return text[:place] + text[place + 1 : place + 2] + text[place : place + 1] + text[place + 2 :]


TEXT_CHANGES: list[Callable[[random.Random, str], str]] = [
    *(_sign, _sign_at_token, _sign_at_token, _space, _space, _cut, _doubled, _glued, _swapped),
]
