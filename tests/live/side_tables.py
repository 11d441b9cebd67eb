"""The shop's other tables: how they are made and filled, and random statements on each.

Whatever isn't an order: the tables are made as the project declares them. What is special about
orders and their keys is in workload.py; here it is that there are many tables and types, a key of
two columns, and none.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from tests.support.histories import MAX_UNSIGNED, TEXTS

TABLES = ("order_address", "coupon", "product_price", "user_account", "audit_nopk")
KEYS = 300  # rows that a table may have, by number
REACHED = 150  # the first so many keys are those that statements meet
INTEGERS = {"tinyint": 7, "int": 31, "bigint": 63}  # type -> bits without sign


class SideTable:
    """One table.

    Args:
        name: its name in the database shop.
        declaration: `meta.source` of its model.
    """

    def __init__(self, name: str, declaration: dict[str, Any]) -> None:
        self.name = f"shop.{name}"
        self.columns: dict[str, str] = declaration["columns"]
        self.key: list[str] = declaration["primary_key"]

    def create(self) -> str:
        body = [
            f"`{name}` {kind} {'not null' if name in self.key else 'null'}"
            for name, kind in self.columns.items()
        ]
        if self.key:
            body.append(f"primary key ({', '.join(self.key)})")
        return f"create table {self.name} ({', '.join(body)}) engine=innodb"

    def fill(self, seed: int) -> str:
        """Insert every second key: half of these rows are met by statements."""
        random = Random(f"{seed}/{self.name}/fill")
        rows = ", ".join(self._row(random, number) for number in range(0, KEYS, 2))
        return f"insert into {self.name} values {rows}"

    def statements(self, seed: int) -> Iterator[tuple[str, str]]:
        """(kind, SQL) without end, as workload.statements."""
        random = Random(f"{seed}/{self.name}")
        while True:
            if random.random() < 0.6:
                yield self._change(random)
                continue
            yield "begin", "begin"
            for _ in range(random.randint(1, 6)):
                yield self._change(random)
            kind = "commit" if random.random() < 0.75 else "rollback"
            yield kind, kind

    def _change(self, random: Random) -> tuple[str, str]:
        does = {"insert": 35, "update": 40, "delete": 15}
        [kind] = random.choices(list(does), list(does.values()))
        some = random.sample(range(REACHED), random.choice([1, 1, 1, 2, 8]))
        if kind == "insert":
            rows = [self._row(random, number) for number in some]
            if not self.key and random.random() < 0.3:
                rows *= 2  # rows that nothing distinguishes
            return kind, f"insert ignore into {self.name} values {', '.join(rows)}"
        where = self._condition(random, some)
        if kind == "delete":
            return kind, f"delete from {self.name} where {where}"
        rest = [name for name in self.columns if name not in self.key]
        names = random.sample(rest, random.randint(1, len(rest)))
        sets = [f"`{name}` = {literal(random, self.columns[name])}" for name in names]
        if self.key and random.random() < 0.1:  # to a key that may be there
            key = self._key(random.randrange(REACHED))
            sets += [f"`{name}` = {value}" for name, value in zip(self.key, key, strict=True)]
            where = self._condition(random, some[:1])
        return kind, f"update ignore {self.name} set {', '.join(sets)} where {where}"

    def _condition(self, random: Random, numbers: list[int]) -> str:
        if not self.key:
            column, kind = random.choice(list(self.columns.items()))
            return f"`{column}` <=> {literal(random, kind)} limit {len(numbers)}"
        keys = ", ".join(f"({', '.join(self._key(number))})" for number in numbers)
        return f"({', '.join(self.key)}) in ({keys})"

    def _row(self, random: Random, number: int) -> str:
        key = dict(zip(self.key, self._key(number), strict=True))
        values = [key.get(name) or literal(random, kind) for name, kind in self.columns.items()]
        return f"({', '.join(values)})"

    def _key(self, number: int) -> list[str]:
        """Literals of a key; those of two columns have the first column in common with others."""
        if len(self.key) == 2:
            return [self._whole(self.key[0], number // 5), f"'code {number % 5}'"]
        return [self._whole(name, number) for name in self.key]

    def _whole(self, name: str, number: int) -> str:
        """Every third number from the end of the range, above what a signed number can hold."""
        is_high = number % 3 == 0 and self.columns[name] == "bigint unsigned"
        return str(MAX_UNSIGNED - number if is_high else number)


def literal(random: Random, kind: str) -> str:
    """A value of a type, as SQL."""
    if random.random() < 0.1:
        return "null"
    name, _, size = kind.rstrip(")").partition("(")
    if kind == "bigint unsigned":
        return str(random.choice([0, 1, 2**53 + 1, 2**63, MAX_UNSIGNED]))
    if name in INTEGERS:
        return str(random.choice([0, 1, -1, 2 ** INTEGERS[name] - 1, -(2 ** INTEGERS[name])]))
    if name == "bit":
        return str(random.randrange(2 ** int(size)))
    if name == "decimal":
        whole, scale = map(int, size.split(","))
        number = random.choice([0, 1, -1, 10**whole - 1, random.randrange(10**whole)])
        digits = f"{abs(number):0{scale + 1}d}"
        return f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"
    if name in ("float", "double"):
        return random.choice(["0", "0.1", "-2.5", "16777216", "1e10", "-1e-10"])
    if name == "enum":
        return random.choice(size.split(","))
    day = f"2026-03-{random.randint(1, 10):02d}"
    clock = f"{random.randrange(24):02d}:{random.randrange(60):02d}:{random.randrange(60):02d}"
    if name == "date":
        return f"'{day}'"
    if name == "time":
        return f"'{clock}'"
    if name in ("datetime", "timestamp"):
        fraction = f".{random.randrange(10 ** int(size)):0{size}d}" if size else ""
        return f"'{day} {clock}{fraction}'"
    # few, so that rows without key meet
    text = random.choice([text for text in TEXTS if text is not None])
    return f"_utf8mb4 x'{text[: int(size) if size else None].encode().hex()}'"
