"""The statements of the live test, without a server."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from random import Random

import pytest

from tests.live.side_tables import KEYS as SIDE_KEYS
from tests.live.side_tables import REACHED, TABLES, SideTable, literal
from tests.live.workload import BEYOND, FENCE, KEYS, NO_USER, POOLS, statements
from tests.support.histories import USERS
from tests.support.latest import declaration, order_columns


def test_a_writers_statements_follow_from_the_seed():
    def first(seed: int, writer: int) -> list[tuple[str, str]]:
        return list(islice(statements(seed, writer, order_columns()), 300))

    assert first(1, 0) == first(1, 0)
    assert first(1, 0) != first(2, 0)
    assert first(1, 0) != first(1, 1)


def test_writers_have_keys_of_their_own():
    for (low, high), pool in zip(KEYS, POOLS, strict=True):
        assert low <= min(pool) and max(pool) <= high
        assert not low <= FENCE <= high
    assert KEYS[0][1] < KEYS[1][0]
    assert not set(BEYOND) & {FENCE, *POOLS[0], *POOLS[1]}
    assert NO_USER not in USERS


def test_every_kind_of_statement_comes_up_and_transactions_end():
    counts: Counter[str] = Counter()
    is_open, saved = False, False
    for kind, sql in islice(statements(7, 0, order_columns()), 5000):
        counts[kind] += 1
        counts["moves"] += bool(re.search(r" set order_id = ", sql))
        if kind == "begin":
            assert not is_open
            is_open, saved = True, False
        elif kind in ("commit", "rollback"):
            assert is_open
            is_open = False
        elif kind == "savepoint":
            saved = True
        elif kind == "back":
            assert is_open and saved
    assert counts.keys() == {
        *("begin", "commit", "rollback", "savepoint", "back", "moves"),
        *("insert", "update", "delete", "upsert", "replace"),
    }
    assert min(counts.values()) > 20


@pytest.mark.parametrize("name", TABLES)
def test_a_side_table_gets_statements_of_each_kind(name: str) -> None:
    table = SideTable(name, declaration(name))

    def first(seed: int) -> list[tuple[str, str]]:
        return list(islice(table.statements(seed), 2000))

    assert first(1) == first(1) != first(2)
    counts = Counter(kind for kind, _ in first(1))
    assert counts.keys() == {"begin", "commit", "rollback", "insert", "update", "delete"}
    assert min(counts.values()) > 20
    keys = [tuple(table._key(number)) for number in range(SIDE_KEYS)]
    if table.key:
        assert len(set(keys)) == SIDE_KEYS
        beyond = [f"({', '.join(key)}" for key in keys[REACHED:]]
        assert not [sql for _, sql in first(1) if any(f"{item}," in sql for item in beyond)]


def test_a_literal_is_of_its_type() -> None:
    random = Random(1)

    def some(kind: str) -> set[str]:
        return {literal(random, kind) for _ in range(300)}

    assert some("bit(2)") == {"null", "0", "1", "2", "3"}
    assert some("enum('a','b')") == {"null", "'a'", "'b'"}
    assert {"null", "0.0000", "-0.0001", "999.9999"} < some("decimal(7,4)")
    assert some("tinyint") == {"null", "0", "1", "-1", "127", "-128"}
    times = some("timestamp(3)") - {"null"}
    assert all(re.fullmatch(r"'2026-03-\d\d \d\d:\d\d:\d\d\.\d{3}'", time) for time in times)
