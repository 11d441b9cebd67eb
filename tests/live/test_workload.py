"""The statements of the live test, without a server."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

from tests.live.test_live import columns
from tests.live.workload import FENCE, KEYS, POOLS, statements


def test_a_writers_statements_follow_from_the_seed():
    def first(seed: int, writer: int) -> list[tuple[str, str]]:
        return list(islice(statements(seed, writer, columns()), 300))

    assert first(1, 0) == first(1, 0)
    assert first(1, 0) != first(2, 0)
    assert first(1, 0) != first(1, 1)


def test_writers_have_keys_of_their_own():
    for (low, high), pool in zip(KEYS, POOLS, strict=True):
        assert low <= min(pool) and max(pool) <= high
        assert not low <= FENCE <= high
    assert KEYS[0][1] < KEYS[1][0]


def test_every_kind_of_statement_comes_up_and_transactions_end():
    counts: Counter[str] = Counter()
    is_open, saved = False, False
    for kind, sql in islice(statements(7, 0, columns()), 5000):
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
