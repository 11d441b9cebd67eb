"""Configs of folds: what stored state depends on, the refusals of a wrong config."""

from __future__ import annotations

import pytest
from dbt.adapters.sparksession.keyed.folds import Fold
from dbt.adapters.sparksession.keyed.layout import FoldConfigError
from dbt.adapters.sparksession.keyed.tables import hash_of_reading
from dbt.adapters.sparksession.keyed.zippers import Zipper


def test_what_stored_state_depends_on_is_compared():
    types = [("id", "int"), ("at", "int"), ("v", "int")]
    config = {"sequence": ["at"], "aggregates": {"v": "max"}}
    fold = Fold.read("m", "id", config).bound(types)
    assert fold.changed_since(fold.signature()) == []
    more = Fold.read("m", "id", config).bound([*types, ("w", "int")])
    assert more.changed_since(fold.signature()) == []
    other = Fold.read("m", "id", config | {"aggregates": {"v": "min"}, "buckets": 8})
    reported = other.bound(types).changed_since(fold.signature())
    assert [text.split(" was ")[0] for text in reported] == ["column v", "partition_by"]
    zipper = Zipper.read("m", "id", {"sequence": "at"}).bound(types)
    assert fold.changed_since(zipper.signature()) == ["it was a zipper, is a fold"]
    assert zipper.changed_since(fold.signature())


def test_what_readers_see_of_stored_state_is_compared():
    listing = {"function": "listagg"}
    config = {"sequence": "at", "aggregates": {"v": listing, "n": "sum"}, "keep_when": "n > 0"}
    derived = {"by": "id", "key": "id", "sql": "select id from folded_rows"}
    reported = [
        hash_of_reading(Fold.read("m", "id", config | more))
        for more in (
            {"tier_runs": 3, "buckets": 8},  # of how it lies
            {"keep_when": "n > 1"},
            {"hidden_columns": ["at", "n"]},
            {"hidden_columns": "at"},
            {"derived": derived},
            {"derived": derived | {"sql": "select id, n from folded_rows"}},
            {"aggregates": config["aggregates"] | {"v": listing | {"delimiter": ";"}}},
        )
    ]
    reported += [
        hash_of_reading(Zipper.read("m", "id", {"sequence": "at", "tracked": tracked}))
        for tracked in ("v", "n", None)
    ]
    assert reported[0] == hash_of_reading(Fold.read("m", "id", config))
    assert len(set(reported)) == len(reported)


BY_CLOCK = {"by": "id", "key": "id", "sql": "select *, now() as n from folded_rows"}
PROBLEMS = [
    (
        {"sequence": 7},
        "fold.sequence must be a list of columns, or of {column: .., order: descending}, got 7",
    ),
    ({"sequence": [{"column": "at", "order": "down"}]}, "fold.sequence must be a list of columns"),
    ({"sequence": {"columns": "at"}}, "or of {column: .., order: descending}, got {'columns': "),
    (
        {"sequence": ["at"], "tie_break": {"column": "at", "order": "descending"}},
        "fold.sequence and tie_break: at is ascending and descending",
    ),
    (
        {"sequence_groups": {"g": {"sequence": [{"column": "at"}, {}], "columns": ["v"]}}},
        "fold.sequence_groups.g.sequence must name at least one column, as a name or as {column: ",
    ),
    (
        {"sequence": [{"column": "nowhere", "order": "descending"}]},
        "fold.sequence: the model has no column nowhere",
    ),
    ({"default_aggregate": 7}, "fold.default_aggregate must be a function or {function, ..}"),
    ({"default_aggregate": "most"}, "fold.default_aggregate.function must be one of sum, "),
    ({"default_aggregate": "listagg"}, "fold.aggregates.at: listagg needs a sequence to go by"),
    ({"default_aggregate": "bool_or", "sequence": ["at"]}, "v (int): bool_or takes a boolean"),
    (
        {"default_aggregate": "max", "row_kind": "kind", "on_delete": "retract"},
        "fold.aggregates.at: max can't take a value back",
    ),
    (
        {"default_aggregate": "max", "other_columns": "last_non_null", "sequence": ["at"]},
        "fold.default_aggregate and fold.other_columns exclude each other",
    ),
    (
        {"row_kind": "kind", "aggregates": {"v": "first_value"}, "sequence": ["at"]},
        "take a value back",
    ),
    ({"aggregates": {"v": "listagg"}}, "listagg needs a sequence to go by"),
    ({"aggregates": {"id": "sum"}}, "id is a column of the key"),
    ({"aggregates": {"at": "sum"}, "sequence": ["at"]}, "keeps its highest value"),
    ({"aggregates": {"v": {"function": "sum", "net": True}}}, "net is for max, min, collect"),
    (
        {"aggregates": {"v": {"function": "max", "distinct": False}}},
        "fold.aggregates.v.distinct is for collect, not for 'max'",
    ),
    (
        {"aggregates": {"v": {"function": "collect", "elements": True}}, "sequence": ["at"]},
        "v (int): elements takes an array",
    ),
    (
        {
            "aggregates": {"v": {"function": "collect", "distinct": False}, "at": "sum"},
            "row_kind": "kind",
        },
        "fold.aggregates.v: collect can't take a value back; set `ignore_retract: true` or `net:",
    ),
    ({"on_delete": "remove_row", "sequence": ["at"]}, "needs fold.row_kind"),
    (
        {"aggregates": {"at": "sum"}, "row_kind": "v", "on_delete": "remove_row"},
        "on_delete: remove_row needs fold.sequence or tie_break",
    ),
    ({"aggregates": {"v": "sum"}, "count_rows": True}, "fold.count_rows needs fold.row_kind, "),
    ({"count_rows": "v"}, "fold.count_rows must be true or false, got 'v'"),
    (
        {"aggregates": {"at": "sum"}, "row_kind": "v", "count_rows": True, "on_delete": "ignore"},
        "fold.count_rows and fold.on_delete: ignore exclude each other",
    ),
    ({"sequence": ["at"], "hidden_columns": 7}, "hidden_columns must be a list of columns, got 7"),
    ({"sequence": ["at"], "hidden_columns": "w"}, "fold.hidden_columns: the model has no column w"),
    ({"sequence": ["at"], "hidden_columns": "id"}, "hidden_columns: id is a column of the key"),
    (
        {
            "sequence": ["at"],
            "hidden_columns": "at",
            "derived": {"by": "id", "key": "id", "sql": "select id from folded_rows"},
        },
        "fold.hidden_columns and fold.derived exclude each other",
    ),
    ({"sequence": ["at"], "tombstone_days": 3}, "need each other"),
    (
        {"sequence": "at", "row_kind": "v", "tombstone_days": 3, "tombstone_time": "at"},
        "fold.tombstone_time: at is int, must be date or timestamp",
    ),
    ({"sequence_groups": {"other": {"sequence": ["at"], "columns": ["v"]}}}, "take another"),
    ({"sequence_groups": {"g": {"sequence": ["at"], "columns": ["at"]}}}, "is in it twice"),
    ({"sequence_groups": ["g"]}, "must map names to"),
    (
        {
            "sequence": ["at"],
            "row_kind": "kind",
            "on_delete": "ignore",
            "sequence_groups": {"g": {"sequence": ["at"], "columns": ["v"]}},
        },
        "g: at is in fold.sequence as well; give the group a copy of it",
    ),
    (
        {"tie_break": ["at"], "sequence_groups": {"g": {"sequence": ["at"], "columns": ["v"]}}},
        "g: at is in fold.tie_break as well",
    ),
    (
        {"sequence": ["at"], "sequence_groups": {"g": {"sequence": ["v"], "columns": ["at"]}}},
        "g: at is in fold.sequence as well",
    ),
    ({}, "at, v: of no group, without fold.sequence"),
    ({"sequence": ["nowhere"]}, "fold.sequence: the model has no column nowhere"),
    ({"sequence": ["at"], "aggregates": {"v": "bool_or"}}, "bool_or takes a boolean"),
    ({"sequence": ["at"], "bucket_by": "v"}, "bucket(4, v) must be of a column of the key"),
    (
        {"sequence": ["at"], "partition_by": ["v", "truncate(0, id)", "weeks(id)", 7]},
        "v must be of a column of the key, which are id",
    ),
    ({"sequence": ["at"], "partition_by": "truncate(id)"}, "such as bucket(8, id), truncate("),
    ({"sequence": ["at"], "partition_by": "days(id)"}, "id (int): days(id) can't be partitioned"),
    ({"sequence": ["at"], "partition_by": "id", "buckets": 2}, "take one of them"),
    (
        {"sequence": ["at"], "keep_when": "at < now()"},
        "fold.keep_when must be a SQL condition that asks neither the clock nor chance",
    ),
    (
        {"sequence": ["at"], "derived": BY_CLOCK},
        "fold.derived.sql asks the clock or chance",
    ),
]


@pytest.mark.parametrize(("config", "expected"), PROBLEMS, ids=[item for _, item in PROBLEMS])
def test_a_problem_of_a_config_is_reported(config: dict, expected: str):
    with pytest.raises(FoldConfigError) as caught:
        Fold.read("m", "id", config).bound([("id", "int"), ("at", "int"), ("v", "int")])
    assert expected in str(caught.value)
    assert "Example: config(materialized='folded'" in str(caught.value)


@pytest.mark.parametrize(
    ("condition", "asks"),
    [
        ("at < now()", True),
        ("v > rand()", True),
        ("at < date 'today'", True),
        ("at < cast('now' as timestamp)", True),
        ("at < to_timestamp('yesterday')", True),
        ("v in ('today', 'now') or v = 'tomorrow'", False),
    ],
)
def test_a_condition_that_asks_the_clock_or_chance_is_found(condition: str, asks: bool):
    config = {"sequence": ["at"], "keep_when": condition}
    if not asks:
        assert Fold.read("m", "id", config).keep_when == condition
        return
    with pytest.raises(FoldConfigError, match="asks neither the clock nor chance"):
        Fold.read("m", "id", config)


def test_an_order_that_turns_is_compared():
    types = [("id", "int"), ("at", "int"), ("v", "int")]
    falling = {"column": "at", "order": "descending"}

    def bound(at: str | dict) -> Fold:
        group = {"sequence": at, "columns": ["v"]}
        return Fold.read("m", "id", {"sequence_groups": {"g": group}}).bound(types)

    # as tables were made before an order could descend
    assert '"g":[["at"],[],null]' in bound("at").signature()
    assert bound({"column": "at", "order": "ascending"}).signature() == bound("at").signature()
    assert bound(falling).changed_since(bound(falling).signature()) == []
    assert bound(falling).changed_since(bound("at").signature()) == [
        'group g was [["at"], [], null], is [[{"column": "at", "order": "descending"}], [], null]'
    ]


def test_what_is_collected_is_compared():
    types = [("id", "int"), ("v", "array<int>")]

    def bound(**how: bool) -> Fold:
        return Fold.read("m", "id", {"aggregates": {"v": {"function": "collect"} | how}}).bound(
            types
        )

    # as tables were made before elements could be collected
    assert '"v":["other",["collect",false,false]]' in bound().signature()
    assert bound(distinct=True, elements=False).signature() == bound().signature()
    found = {
        bound(distinct=a, elements=b).signature() for a in (True, False) for b in (True, False)
    }
    assert len(found) == 4
    assert bound(elements=True).changed_since(bound().signature()) == [
        'column v was ["other", ["collect", false, false]], '
        'is ["other", ["collect", false, false, true, true]]'
    ]


def test_whether_rows_are_counted_is_compared():
    types = [("id", "int"), ("v", "int"), ("kind", "string")]
    config = {"aggregates": {"v": "sum"}, "row_kind": "kind"}
    plain, counting = (
        Fold.read("m", "id", config | more).bound(types) for more in ({}, {"count_rows": True})
    )
    assert "count_rows" not in plain.signature()  # as tables were made before rows were counted
    assert counting.changed_since(plain.signature()) == ["count_rows was null, is true"]
    assert plain.changed_since(counting.signature()) == ["count_rows was true, is null"]


@pytest.mark.parametrize("kind", ["double", "float", "array<int>"])
def test_a_type_that_has_no_exact_reverse_is_refused(kind: str):
    fold = Fold.read("m", "id", {"tie_break": [{"column": "at", "order": "descending"}]})
    expected = f"fold.tie_break: at is {kind}, which has no descending order here; cast it to "
    with pytest.raises(FoldConfigError) as caught:
        fold.bound([("id", "int"), ("at", kind)])
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("map<string,string>", "can't be compared"), ("variant", "can't be compared"),
     ("string collate UTF8_LCASE", "keeps no collation"),
     ("double", "must not depend on the order")],
)  # fmt: skip
def test_a_type_that_has_no_total_order_or_exact_sum_is_refused(kind: str, expected: str):
    config = {"sequence": ["at"]}
    if kind == "double":
        config["aggregates"] = {"v": "sum"}
    with pytest.raises(FoldConfigError, match=expected):
        Fold.read("m", "id", config).bound([("id", "int"), ("at", "int"), ("v", kind)])
