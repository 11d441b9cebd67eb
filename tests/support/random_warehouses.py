"""Random projects of more kinds of models, and what people do to them between runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import yaml

from tests.support.random_models import (
    BUILT,
    CONSTANT,
    STORED,
    WITH_KEY,
    Model,
    RandomProject,
    config,
    whole_config,
)
from tests.support.random_sql import summed_queries

FOLDED = ("summed", "latest", "joined", "zipped", "folded_changes")
KEYED = (*WITH_KEY, "folded_changes", "merged_changes")  # no two rows have the same id
EDITABLE = ("table", "all", "view")  # kinds that a model may change between
OF_SIGNS = "select id, day, v + {} as v, row_kind, sign from {}"
ACCEPTED = [0, 1, 2, 3, 4, 5, 6]


class RandomWarehouse(RandomProject):
    """A random project that has data tests, and of which a model may go and come back.

    Attributes:
        away: first names of models whose files aren't there now.
        tested: first names of models that have data tests.
    """

    def __init__(self, rng: random.Random) -> None:
        self.away: set[str] = set()
        self.tested: list[str] = []
        super().__init__(rng)
        known = [model.name for model in self.models if model.kind != "ephemeral"]
        self.tested = rng.sample(known, min(2, len(known)))

    def _makers(self) -> tuple[Callable[[str], Model], ...]:
        more = (self._row_view, self._row_view, self._zipped, self._folded_changes)
        more += (self._merged_changes, self._python_changes, self._spans, self._near)
        return (*super()._makers(), *more)

    def _stored(self, but: str = "", news: bool = True) -> str:
        """A table whose new rows may be asked for, or a view of such.

        Args:
            but: not of this kind; `windows` for none that has windows.
            news: whether the rows are asked for themselves, not what changed.
        """
        kinds = {*STORED, "python_changes", "spans", "row_view", *(() if news else FOLDED)}
        kinds -= {"windows", "spans"} if but == "windows" else {but}
        stored = [model.name for model in self.models if model.kind in kinds]
        if stored and self.rng.random() < 0.7:
            return f"ref('<{self.rng.choice(stored)}>')"
        return "source('src', 'events')"

    def _changing(self) -> str:
        """A table of which the changes may be asked for."""
        return f"{{{{ new_changes({self._stored(news=False)}) }}}}"

    # ---- kinds of models ------------------------------------------------------------------

    def _adding(self) -> str:
        settings = {"materialized": "incremental", "incremental_strategy": "[strategy]"}
        if self.rng.random() < 0.3:
            settings["on_definition_change"] = "rebuild"
        if self.rng.random() < 0.3:
            places = ("day", "bucket(2, id)", "truncate(4, id)", ["day", "bucket(2, v)"])
            settings["partition_by"] = self.rng.choice(places)
        if self.rng.random() < 0.3:
            settings["sort_by"] = self.rng.choice(("id", "v desc", ["day", "id"]))
        return config(**settings)

    def _changes(self, name: str) -> Model:
        sql = OF_SIGNS.format(CONSTANT, self._changing())
        return Model(name, self._adding() + sql, "changes")

    def _summed(self, name: str) -> Model:
        fold = {"aggregates": {"v": "sum"}, "row_kind": "row_kind", "tier_runs": 2}
        if self.rng.random() < 0.5:
            fold["count_rows"] = True
        settings = config(materialized="folded", unique_key=["id", "day"], fold=fold)
        queries = summed_queries(self._changing())
        # groups of a run are no rows that could be counted
        sql = queries[0] if "count_rows" in fold else self.rng.choice(queries)
        return Model(name, settings + sql, "summed")

    def _row_view(self, name: str) -> Model:
        """Rows of a table one by one, so that readers may ask for those that are new."""
        settings = config(materialized="view", meta={"row_wise": True})
        few = self.rng.choice(("", " where v >= 0", " where id is not null"))
        sql = f"select id, day, v + {CONSTANT} as v from {{{{ {self._stored()} }}}}{few}"
        return Model(name, settings + sql, "row_view")

    def _zipped(self, name: str) -> Model:
        zipper = {"sequence": ["day", "v"], "time": "at", "tracked": ["w"], "tier_runs": 2}
        settings = config(materialized="folded", unique_key="id", zipper=zipper)
        read = f"{{{{ new_rows({self._stored()}) }}}}"
        sql = f"select id, day, v, v as w, cast(day as timestamp) as at from {read}"
        return Model(
            name,
            f"{settings}{sql} where id is not null and day is not null and v is not null",
            "zipped",
        )

    def _folded_changes(self, name: str) -> Model:
        fold = {"sequence": ["day", "v"], "row_kind": "row_kind", "tier_runs": 2}
        settings = config(materialized="folded", unique_key="id", fold=fold)
        few = self.rng.choice(("", " and v <> 4"))
        sql = f"select id, day, v, row_kind from {self._changing()}"
        return Model(
            name,
            f"{settings}{sql} where id is not null and day is not null and v is not null{few}",
            "folded_changes",
        )

    def _merged_changes(self, name: str) -> Model:
        known = [model.name for model in self.models if model.kind in KEYED]
        if not known:
            return self._latest(name)
        settings = config(materialized="incremental", unique_key="id")
        few = self.rng.choice(("", " and v > 2"))
        read = f"{{{{ new_changes(ref('<{self.rng.choice(known)}>')) }}}}"
        sql = f"select id, day, v + {CONSTANT} as v from {read} where sign > 0{few}"
        return Model(name, settings + sql, "merged_changes")

    def _python_changes(self, name: str) -> Model:
        kinds = {*STORED, *FOLDED}
        call, table = self._python_input(
            [model.name for model in self.models if model.kind in kinds]
        )
        text = (
            "def model(dbt, session):\n"
            '    dbt.config(materialized="incremental", incremental_strategy="append")\n'
            f"    changes = dbt.new_changes({call})\n"
            '    return changes.select("id", "day", "v", "row_kind", "sign").where("v >= 0")\n'
        )
        twin = f"select id, day, v, 1 as sign from {table} where v >= 0"
        return Model(name, text, "python_changes", twin)

    def _spans(self, name: str) -> Model:
        """Windows that overlap, or sessions."""
        settings = config(materialized="incremental", incremental_strategy="replace_windows")
        macro = self.rng.choice(
            (
                "slide(rows={}, time='day', size='2 days', slide='1 day', zone='UTC')",
                "session(rows={}, time='day', key='id', gap='36 hours', zone='UTC')",
                "session(rows={}, time='day', key=['id', 'v'], gap='1 day', zone='UTC')",
            )
        )
        macro = macro.format(self._stored("windows"))
        sql = (
            f"with spans as ({{{{ {macro} }}}}) select id, window_date as day, sum(v) as v, "
            "window_start, window_end, window_date from spans group by all"
        )
        return Model(name, settings + sql, "spans")

    def _near(self, name: str) -> Model:
        """A join by times."""
        known = [model.name for model in self.models if model.kind in KEYED]
        if not known:
            return self._latest(name)
        left, right = (self.rng.choice(known) for _ in range(2))
        sides = (
            f"left={{'relation': ref('<{left}>'), 'key': 'id', 'columns': ['id', 'day', 'v'], "
            f"'time': 'day'}}, right={{'relation': ref('<{right}>'), 'key': 'id', "
            "'columns': {'id': 'rid', 'v': 'rv'}, 'time': 'day'}, on={'v': 'v'}"
        )
        kind = self.rng.choice(("inner", "left"))
        joined = self.rng.choice(
            (
                f"interval_join({sides}, lower='-2 days', upper='1 day', kind='{kind}')",
                f"asof_join({sides}, kind='{kind}')",
                f"asof_join({sides}, direction='nearest', tolerance='2 days', kind='{kind}')",
            )
        )
        settings = config(materialized="folded")
        return Model(
            name,
            f"{settings}with joined as ({{{{ {joined} }}}}) select * from joined",
            "joined",
        )

    # ---- the project ----------------------------------------------------------------------

    def files(self) -> dict[str, str]:
        found = super().files()
        for model in self.models:
            if model.name in self.away:
                found.pop(self._path(model), None)
        by_kind: dict[str, list[object]] = {}
        for model in self.models:
            if model.name in self.tested and model.name not in self.away:
                columns = [
                    {"name": "id", "data_tests": ["not_null", "unique"]},
                    {
                        "name": "v",
                        "data_tests": [
                            {"accepted_values": {"arguments": {"values": ACCEPTED, "quote": False}}}
                        ],
                    },
                ]
                section = f"{model.kind}s" if model.kind in BUILT else "models"
                named = {"name": self.names[model.name], "columns": columns}
                by_kind.setdefault(section, []).append(named)
        found["models/_tests.yml"] = yaml.safe_dump(by_kind or {"version": 2})
        return found

    def edit_kind(self) -> str | None:
        """Let a model that is made of all rows be of another kind; what was done."""
        known = [
            place
            for place, model in enumerate(self.models)
            if model.kind in EDITABLE and model.text.startswith(whole_config(model.kind))
        ]
        if not known:
            return None
        place = self.rng.choice(known)
        model = self.models[place]
        kinds = set(EDITABLE) - {model.kind}
        if "run_query" in model.text or self._is_read_as_a_table(model):
            kinds -= {"view"}
        if not kinds:
            return None
        kind = self.rng.choice(sorted(kinds))
        text = whole_config(kind) + model.text.removeprefix(whole_config(model.kind))
        self.models[place] = replace(model, text=text, kind=kind)
        return f"{model.name} is {kind}"

    def _is_read_as_a_table(self, model: Model) -> bool:
        name = f"<{model.name}>"
        plain = ("table", "view", "ephemeral", "all")
        return any(
            name in other.text and (other.kind not in plain or "run_query" in other.text)
            for other in self.models
        )

    def take_away(self) -> str | None:
        """Let the file of a model that no other reads go; its path."""
        leaves = [
            model
            for model in self.models
            if model.name not in self.away
            and model.kind not in BUILT
            and not any(f"<{model.name}>" in other.text for other in self.models)
        ]
        if len(self.models) - len(self.away) < 3 or not leaves:
            return None
        model = self.rng.choice(leaves)
        self.away.add(model.name)
        return self._path(model)

    def bring_back(self) -> str | None:
        """Let a model that went come back; its name."""
        if not self.away:
            return None
        name = self.rng.choice(sorted(self.away))
        self.away.remove(name)
        return name


def _plain_statements(rng: random.Random) -> list[str]:
    """What happens to the rows of the tables before a run."""

    def day() -> str:
        return f"date '2026-03-0{rng.randint(1, 6)}'"

    def row() -> str:
        return f"({rng.choice(('null', *range(1, 9)))}, {day()}, {rng.randint(-3, 9)})"

    into = "insert into src.events (id, day, v) values"
    some = (
        lambda: f"{into} {', '.join(row() for _ in range(3))}",
        lambda: f"{into} {row()}",
        lambda: f"insert into src.rates values ({rng.randint(1, 9)})",
        lambda: f"delete from src.events where id = {rng.randint(1, 8)} and day = {day()}",
        lambda: f"update src.events set v = v + 1 where id = {rng.randint(1, 8)}",
        lambda: f"delete from src.events where day = {day()}",
        lambda: (
            "call lake.system.rewrite_data_files(table => 'src.events', "
            "options => map('rewrite-all', 'true'))"
        ),
    )
    return [rng.choice(some)() for _ in range(rng.randint(0, 3))]


def statements(rng: random.Random) -> list[str]:
    """What happens to the tables before a run; `rollback` takes the newest commit of the events
    back. That fails where there is no older commit, as a partition field can't be added twice."""
    number = rng.randrange(10**6)
    columns = "partitioned by (day) tblproperties ('write.summary.partition-limit' = '100')"
    some = (
        [f"alter table src.events add column extra{number} int"],
        [f"alter table src.events add column extra{number} string first"],
        ["alter table src.events alter column v first"],
        ["alter table src.events alter column v after id"],
        [f"create or replace table src.events using iceberg {columns} as select * from src.events"],
        [
            "alter table src.events rename to src.events_old",
            f"create table src.events using iceberg {columns} as select * from src.events_old "
            f"where id is null or id <> {rng.randint(1, 8)}",
            "drop table src.events_old",
        ],
        ["alter table src.events add partition field bucket(2, id)"],
        ["alter table src.events drop partition field bucket(2, id)"],
        [
            "alter table src.events set tblproperties ('write.delete.mode' = 'merge-on-read', "
            "'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read')"
        ],
        [
            "merge into src.events as e using (select * from values "
            f"({rng.randint(1, 8)}, date '2026-03-0{rng.randint(1, 6)}', {rng.randint(-3, 9)}) as "
            "n(id, day, v)) as n on e.id = n.id when matched then update set v = n.v "
            "when not matched then insert (id, day, v) values (n.id, n.day, n.v)"
        ],
        [
            "insert overwrite src.events select * from src.events "
            f"where v is distinct from {rng.randint(0, 3)}"
        ],
        [
            "call lake.system.expire_snapshots(table => 'src.events', "
            "older_than => timestamp '2099-01-01', retain_last => 1)"
        ],
        ["rollback"],
        ["call lake.system.rewrite_position_delete_files(table => 'src.events')"],
    )
    found = _plain_statements(rng)
    if rng.random() < 0.35:
        found[rng.randint(0, len(found)) :] = rng.choice(some)
    return found
