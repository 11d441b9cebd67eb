"""Random statements on shop.order_info, as a program and its users would send them, and worse.

A writer's statements follow from the seed and its number alone, up to the last statement that it
got to. Each writer has keys of its own, so that what one does never depends on how far the other
is.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from tests.support.histories import BIZ_STATUSES, MAX_AMOUNT, MAX_UNSIGNED, TEXTS, USERS, ZERO_TIME
from tests.support.mysql_server import MysqlClient
from tests.support.sql_client import SqlError

TABLE = "shop.order_info"
# writer -> first and last key. Neighbours above 2^53 are in it, which a double would merge
KEYS = [(0, 2**62 - 1), (2**62 + 1, MAX_UNSIGNED)]
POOLS = [
    [*range(120), *range(2**53 - 10, 2**53 + 20)],
    [*range(2**63 - 60, 2**63 + 60), *range(MAX_UNSIGNED - 30, MAX_UNSIGNED + 1)],
]
BEYOND = range(10**6, 10**6 + 4000)  # keys that no writer changes
NO_USER = 4242  # none of USERS
FENCE = 2**62  # a row that stays: no lock on the gap behind a writer's last key meets the other
AMOUNTS = ("0.00", "0.01", "-0.01", "10.50", "99.90", "-1000.00", str(MAX_AMOUNT), None)
EXPECTED_ERRORS = {
    1062,  # the key is there
    1264,  # an amount out of range
    1690,  # a key out of range
}
Column = tuple[str, str]  # name, MySQL type


def create_table(columns: dict[str, str]) -> list[str]:
    """Statements that make the database and the table; the first column is its key."""
    key, *rest = [f"`{name}` {kind}" for name, kind in columns.items()]
    body = ", ".join([f"{key} not null primary key", *(f"{item} null" for item in rest)])
    return [
        "create database shop",
        f"create table {TABLE} ({body}) engine=innodb",
        f"insert into {TABLE} (order_id, amount) values ({FENCE}, 0)",
    ]


def fill(seed: int, columns: dict[str, str]) -> list[str]:
    """Statements that bring rows that writers meet, and BEYOND, which they leave alone."""
    made = _Writer(Random(f"{seed}/fill"), 0, columns)
    keys = [*(key for pool in POOLS for key in pool[::2]), *BEYOND]
    parts = [keys[first : first + 500] for first in range(0, len(keys), 500)]
    beyond = f"order_id between {BEYOND[0]} and {BEYOND[-1]}"
    return [
        *(f"insert into {TABLE} values {', '.join(map(made.row, part))}" for part in parts),
        # writers change orders by user too
        f"update {TABLE} set user_id = {NO_USER} where {beyond}",
    ]


def statements(seed: int, writer: int, columns: dict[str, str]) -> Iterator[tuple[str, str]]:
    """(kind, SQL) without end; kind: begin, commit, rollback, savepoint, back, insert, update,
    delete, upsert (of one row) or replace (of one row)."""
    return _Writer(Random(f"{seed}/{writer}"), writer, columns).play()


class _Writer:
    def __init__(self, random: Random, writer: int, columns: dict[str, str]) -> None:
        self.random, self.columns = random, columns
        self.low, self.high = KEYS[writer]
        self.pool = POOLS[writer]
        self.number = 0

    def play(self) -> Iterator[tuple[str, str]]:
        while True:
            if self.random.random() < 0.6:
                yield self.change()
                continue
            yield "begin", "begin"
            saved = False
            for _ in range(self.random.randint(1, 8)):
                if saved and self.random.random() < 0.2:
                    yield "back", "rollback to savepoint here"
                elif self.random.random() < 0.1:
                    saved = True
                    yield "savepoint", "savepoint here"
                yield self.change()
            kind = "commit" if self.random.random() < 0.75 else "rollback"
            yield kind, kind

    def change(self) -> tuple[str, str]:
        self.number += 1
        does = {
            self.insert: 20,
            self.insert_many: 6,
            self.upsert: 6,
            self.replace: 6,
            self.update: 25,
            self.update_many: 12,
            self.update_by_user: 5,
            self.no_update: 2,
            self.move: 8,
            self.move_many: 2,
            self.delete: 10,
            self.delete_many: 3,
        }
        [chosen] = self.random.choices(list(does), list(does.values()))
        return chosen()

    # ---- values ---------------------------------------------------------------------------

    def key(self) -> int:
        return self.random.choice(self.pool)

    def keys(self) -> str:
        some = self.random.sample(self.pool, self.random.randint(2, 12))
        return ", ".join(map(str, some))

    def value(self, name: str) -> str:
        """A literal for a column."""
        kind = self.columns[name]
        if self.random.random() < 0.08:
            return "null"
        if name == "user_id":
            return _number(self.random.choice(USERS))
        if name == "amount":
            return _number(self.random.choice(AMOUNTS))
        if name == "biz_status":
            return _text(self.random.choice(BIZ_STATUSES))
        if kind.startswith("datetime"):
            return self.time("(3)" in kind)
        if kind.startswith(("bigint", "int")):
            low, high = (
                (-(2**63), 2**63 - 1) if kind.startswith("bigint") else (-(2**31), 2**31 - 1)
            )
            return str(self.random.choice([0, 1, 5, -1, low, high]))
        text = self.random.choice(TEXTS)
        if kind.startswith("varchar") and text is not None:
            text = text[: int(kind[8:-1])]
        return _text(text)

    def time(self, fraction: bool) -> str:
        """Mostly of ten business days, so that changes of one run meet on days of another."""
        if self.random.random() < 0.04:
            return f"'{ZERO_TIME[: 23 if fraction else 19]}'"
        if self.random.random() < 0.02:
            return "'9999-12-31 23:59:59'"
        day, second = self.random.randint(1, 10), self.random.randrange(86400)
        clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        tail = f".{self.random.randrange(1000):03d}" if fraction else ""
        return f"'2026-03-{day:02d} {clock}{tail}'"

    def row(self, key: int) -> str:
        names = list(self.columns)[1:]
        return f"({', '.join([str(key), *map(self.value, names)])})"

    def assignments(self) -> str:
        names = self.random.sample(list(self.columns)[1:], self.random.randint(1, 5))
        return ", ".join(f"`{name}` = {self.value(name)}" for name in names)

    # ---- statements -----------------------------------------------------------------------

    def insert(self) -> tuple[str, str]:
        return "insert", f"insert into {TABLE} values {self.row(self.key())}"

    def insert_many(self) -> tuple[str, str]:
        # the server cuts a long statement's rows into events of their own positions
        most = 100 if self.random.random() < 0.1 else 12
        keys = self.random.sample(self.pool, self.random.randint(2, most))
        rows = ", ".join(map(self.row, keys))
        return "insert", f"insert ignore into {TABLE} values {rows}"

    def upsert(self) -> tuple[str, str]:
        row, sets = self.row(self.key()), self.assignments()
        return "upsert", f"insert into {TABLE} values {row} on duplicate key update {sets}"

    def replace(self) -> tuple[str, str]:
        # with a text that no row has: the row never stays as it was
        names = list(self.columns)[1:]
        values = [
            _text(f"statement {self.number}") if name == "comment" else self.value(name)
            for name in names
        ]
        return "replace", f"replace into {TABLE} values ({self.key()}, {', '.join(values)})"

    def update(self) -> tuple[str, str]:
        return "update", f"update {TABLE} set {self.assignments()} where order_id = {self.key()}"

    def update_many(self) -> tuple[str, str]:
        sets = self.random.choice(
            [self.assignments(), "amount = amount + 0.01", "amount = -amount"]
        )
        return "update", f"update {TABLE} set {sets} where order_id in ({self.keys()})"

    def update_by_user(self) -> tuple[str, str]:
        sets = f"user_id = {self.value('user_id')}, update_time = {self.value('update_time')}"
        return "update", f"update {TABLE} set {sets} where {self.of_user()}"

    def no_update(self) -> tuple[str, str]:
        return "update", f"update {TABLE} set comment = comment where order_id in ({self.keys()})"

    def move(self) -> tuple[str, str]:
        sets = f"order_id = {self.key()}"
        if self.random.random() < 0.5:
            sets += f", {self.assignments()}"
        return "update", f"update {TABLE} set {sets} where order_id = {self.key()}"

    def move_many(self) -> tuple[str, str]:
        sets = f"order_id = order_id + {self.random.randint(1, 3)}"
        where = f"order_id in ({self.keys()}) order by order_id desc"
        return "update", f"update {TABLE} set {sets} where {where}"

    def delete(self) -> tuple[str, str]:
        return "delete", f"delete from {TABLE} where order_id = {self.key()}"

    def delete_many(self) -> tuple[str, str]:
        where = f"order_id in ({self.keys()})" if self.random.random() < 0.8 else self.of_user()
        return "delete", f"delete from {TABLE} where {where}"

    def of_user(self) -> str:
        user = self.value("user_id")
        return f"order_id between {self.low} and {self.high} and user_id <=> {user}"


def _number(value: object) -> str:
    return "null" if value is None else str(value)


def _text(value: str | None) -> str:
    return "null" if value is None else f"_utf8mb4 x'{value.encode().hex()}'"


@dataclass
class Writer:
    """A thread that sends a writer's statements until it has to stop.

    Attributes:
        play: the statements, see `statements`.
        client: a connection of its own.
        longest_pause: between two statements, s.
        sent: how many statements it sent.
        refused: how many of them the server refused, as it had to.
        changes: insert, update, delete -> rows that were changed so, by the server's own count.
        error: what ended it before it had to stop.
    """

    play: Iterator[tuple[str, str]]
    client: MysqlClient
    longest_pause: float
    sent: int = 0
    refused: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop it behind a whole transaction.

        Raises:
            SqlError: a statement was refused that should not have been.
        """
        self._stop.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            self._send_all()
        except BaseException as exc:
            self.error = exc

    def _send_all(self) -> None:
        pauses = Random()
        made: list[Counter[str]] = []  # since begin, since the savepoint
        for kind, sql in self.play:
            if self._stop.is_set() and not made:
                return
            try:
                changed = self.client.execute(sql)
            except SqlError as exc:
                if exc.number not in EXPECTED_ERRORS:
                    raise
                self.refused += 1
                changed = 0
            self.sent += 1
            if kind == "begin":
                made = [Counter()]
            elif kind == "savepoint":
                made = [made[0] + (made[1] if len(made) > 1 else Counter()), Counter()]
            elif kind == "back":
                made[1] = Counter()
            elif kind in ("commit", "rollback"):
                if kind == "commit":
                    for item in made:
                        self.changes.update(item)
                made = []
            else:
                counter = made[-1] if made else self.changes
                if kind == "upsert" or kind == "replace":
                    # the server counts 2 for a row that it changed in place
                    counter.update({"insert": changed == 1, "update": changed == 2})
                else:
                    counter[kind] += changed
            self._stop.wait(pauses.random() * self.longest_pause)
