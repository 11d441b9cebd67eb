"""Random projects of models as analysts write them, over two tables that anybody changes."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

SOURCES = """
    sources:
      - name: src
        tables: [{name: events}, {name: rates}]
"""
PROJECT = """
    name: small
    version: "1.0"
    config-version: 2
    profile: binlog_warehouse
    on-run-start: "{{ start_run() }}"
    on-run-end: "{{ end_run(results) }}"
"""
EVENTS = "{{ source('src', 'events') }}"
# a row that no statement changes: whoever reads all rows of the events finds it
KEPT_ROW = "(100, date '2026-03-09', 50)"
FINDS_KEPT_ROW = "(select count(distinct id) from {} where id = 100)"
STORED = ("table", "added", "days", "all", "changes", "python", "python_added")
RATES = "{{ source('src', 'rates') }}"


CONSTANT = "([constant] + {{ var('bonus', 0) }})"


def config(**settings: object) -> str:
    return "{{ config(" + ", ".join(f"{key}={value!r}" for key, value in settings.items()) + ") }} "


@dataclass(frozen=True)
class Model:
    """One model of a project.

    Attributes:
        name: what it was called first.
        text: its file, with `<name>` where it refers to another model, `[constant]` where it has a
            number and `[strategy]` where it names how it adds.
        kind: table, view, ephemeral, added, changes, days, all, merged, summed, latest, python or
            python_added.
        twin: of a Python model, a query of the rows that it should have, over its input's table.
    """

    name: str
    text: str
    kind: str
    twin: str = ""

    @property
    def is_python(self) -> bool:
        return self.kind.startswith("python")


class RandomProject:
    """Models that are made by a seed. Every model has the columns id, day and v.

    What each should hold is what its own SQL gives when it is built for the first time: one that
    adds to its rows, or merges into them, is made so that nothing else could be right.

    Attributes:
        models: in an order in which each refers to earlier models alone.
        names: first name of each -> its present one.
        constants: first name of each -> the number in its SQL.
        strategies: first name of each that adds -> its strategy.
        vars: the project's vars, as its commands are given them.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.models: list[Model] = []
        self.names: dict[str, str] = {}
        self.constants: dict[str, int] = {}
        self.strategies: dict[str, str] = {}
        self.vars = {"bonus": 0}
        makers = (self._whole, self._whole, self._whole, self._added, self._added, self._days)
        makers += (self._days, self._summed, self._latest, self._merged, self._python)
        makers += (self._python_added, self._changes)
        for number in range(rng.randint(4, 7)):
            model = rng.choice(makers)(f"m{number}")
            self.models.append(model)
            self.names[model.name] = model.name
            self.constants[model.name] = 0
            self.strategies[model.name] = self.rng.choice(("append", "append_new_rows"))

    # ---- what a model reads ---------------------------------------------------------------

    def _any(self) -> str:
        """SQL that names a relation, by the name alone or by pinned(..)."""
        relation = EVENTS
        if self.models and self.rng.random() < 0.7:
            relation = f"{{{{ ref('<{self.rng.choice(self.models).name}>') }}}}"
        if self.rng.random() < 0.4:
            relation = relation.replace("{{ ", "{{ pinned(").replace(" }}", ") }}")
        ephemeral = {f"<{model.name}>" for model in self.models if model.kind == "ephemeral"}
        if any(name in relation for name in ephemeral):  # it has no snapshots to be pinned to
            relation = relation.replace("pinned(", "").replace(")) }}", ") }}")
        return relation

    def _lookup(self) -> str:
        """An expression that looks something up in all rows of a relation."""
        return self.rng.choice(
            (
                "0",
                f"(select max(rate) from {RATES})",
                f"(select count(*) from {self._any()})",
                f"(select max(looked_up.v) from {self._any()} as looked_up)",
            )
        )

    def _query(self) -> str:
        """A query over all rows of one or two relations."""
        name, two, lookup = self._any(), self._any(), self._lookup()
        return self.rng.choice(
            (
                f"select id, day, v + {lookup} as v from {name}",
                f"with a as (select * from {name}), b as (select * from {two}) "
                "select a.id, a.day, a.v + b.v as v from a inner join b on a.id <=> b.id",
                f"select id, day, v from {name} union all select id, day, -v from {two}",
                f"select max(id) as id, day, sum(v) + {lookup} as v from {name} group by day",
                "select id, day, v from (select ranked.*, row_number() over "
                f"(partition by id order by day desc, v desc) as place from {name} as ranked) "
                "where place = 1",
                f"select id, day, v from {name} as kept where exists (select 1 from {two} as found "
                "where found.id = kept.id and found.v >= 0)",
            )
        )

    def _stored(self) -> str:
        """A table whose new rows may be asked for."""
        stored = [model.name for model in self.models if model.kind in STORED]
        if stored and self.rng.random() < 0.6:
            return f"ref('<{self.rng.choice(stored)}>')"
        return "source('src', 'events')"

    # ---- kinds of models ------------------------------------------------------------------

    def _whole(self, name: str) -> Model:
        kind = self.rng.choice(("table", "view", "ephemeral", "all"))
        settings = {"materialized": kind}
        if kind == "all":
            settings = {"materialized": "incremental", "incremental_strategy": "replace_all"}
        edited = f"select id, day, v + {CONSTANT} as v from ({self._query()})"
        return Model(name, config(**settings) + edited, kind)

    def _adding(self) -> str:
        settings = {"materialized": "incremental", "incremental_strategy": "[strategy]"}
        if self.rng.random() < 0.3:
            settings["on_definition_change"] = "rebuild"
        return config(**settings)

    def _added(self, name: str) -> Model:
        """Adds the new rows of a table; some look up in all rows of the events, before or behind
        the new rows of the very same table."""
        read = f"{{{{ new_rows({self._stored()}) }}}}"
        found = FINDS_KEPT_ROW.format(EVENTS)
        sql = self.rng.choice(
            (
                f"select id, day, v * 2 + {CONSTANT} as v from {read}",
                f"select id, day, v + {CONSTANT} * {found} as v from {read}",
                f"select id, day, v + {CONSTANT} + found.n as v from (select {found} as n) as found"
                f" cross join {read}",
                f"select id, day, v + {CONSTANT} as v from {read} where {found} = 1",
            )
        )
        return Model(name, self._adding() + sql, "added")

    def _changes(self, name: str) -> Model:
        read = f"{{{{ new_changes({self._stored()}) }}}}"
        sql = f"select id, day, v + {CONSTANT} as v, row_kind, sign from {read}"
        return Model(name, self._adding() + sql, "changes")

    def _days(self, name: str) -> Model:
        days = [f"ref('<{model.name}>')" for model in self.models if model.kind == "days"]
        taken = self.rng.sample(
            ["source('src', 'events')", *days], self.rng.randint(1, len(days) + 1)
        )
        settings = config(
            materialized="incremental",
            incremental_strategy="replace_partitions",
            partition_by="day",
        )
        parts = " union all ".join(
            f"select id, day, v from {{{{ changed_partitions({item}, by='day') }}}}"
            for item in taken
        )
        sums = f"select max(id) as id, day, sum(v) + {self._lookup()} as v from ({parts})"
        return Model(name, f"{settings}{sums} group by day", "days")

    def _summed(self, name: str) -> Model:
        settings = config(
            materialized="folded",
            unique_key=["id", "day"],
            fold={"aggregates": {"v": "sum"}, "row_kind": "row_kind"},
        )
        read = f"{{{{ new_changes({self._stored()}) }}}}"
        sql = f"select id, day, cast(v as bigint) as v, row_kind from {read}"
        return Model(name, f"{settings}{sql} where id is not null and day is not null", "summed")

    def _latest(self, name: str) -> Model:
        settings = config(materialized="folded", unique_key="id", fold={"sequence": ["day", "v"]})
        read = f"{{{{ new_rows({self._stored()}) }}}}"
        sql = f"select id, day, v from {read} where id is not null and day is not null"
        return Model(name, f"{settings}{sql} and v is not null", "latest")

    def _merged(self, name: str) -> Model:
        settings = config(
            materialized="incremental", incremental_strategy="merge", unique_key=["id", "v"]
        )
        # of the rates nothing ever goes, so that what a merge leaves is all that its query gives
        sql = f"select distinct rate as id, date '2026-03-01' as day, rate as v from {RATES}"
        return Model(name, settings + sql, "merged")

    def _python(self, name: str) -> Model:
        known = [model.name for model in self.models if model.kind != "ephemeral"]
        call, table = self._python_input(known)
        text = (
            "def model(dbt, session):\n"
            '    dbt.config(materialized="table")\n'
            f'    return {call}.select("id", "day", "v").where("v >= 0")\n'
        )
        return Model(name, text, "python", f"select id, day, v from {table} where v >= 0")

    def _python_added(self, name: str) -> Model:
        call, table = self._python_input(
            [model.name for model in self.models if model.kind in STORED]
        )
        strategy = self.rng.choice(("append", "append_or_merge"))
        text = (
            "def model(dbt, session):\n"
            f'    dbt.config(materialized="incremental", incremental_strategy="{strategy}")\n'
            f'    return dbt.new_rows({call}).select("id", "day", "v").where("v >= 0")\n'
        )
        return Model(name, text, "python_added", f"select id, day, v from {table} where v >= 0")

    def _python_input(self, known: list[str]) -> tuple[str, str]:
        """A call that reads events or one of the known models, and the table that it reads."""
        if known and self.rng.random() < 0.7:
            chosen = self.rng.choice(known)
            return f'dbt.ref("<{chosen}>")', f"dw.<{chosen}>"
        return 'dbt.source("src", "events")', "src.events"

    # ---- the project ----------------------------------------------------------------------

    def files(self) -> dict[str, str]:
        """Path -> text of the project as it is now."""
        found = {"models/_sources.yml": SOURCES, "dbt_project.yml": PROJECT}
        for model in self.models:
            text = self.named(model.text)
            text = text.replace("[constant]", str(self.constants[model.name]))
            text = text.replace("[strategy]", self.strategies[model.name])
            found[self._path(model)] = text
        return found

    def named(self, text: str) -> str:
        """A text with the present names of the models in it."""
        return re.sub(r"<(m\d+)>", lambda match: self.names[match[1]], text)

    def _path(self, model: Model) -> str:
        return f"models/{self.names[model.name]}.{'py' if model.is_python else 'sql'}"

    def edit(self) -> str:
        """Change a number in a model's SQL, its config or the var; what was done."""
        model = self.rng.choice(self.models)
        number = self.rng.randint(1, 99)
        what = self.rng.choice(("constant", "constant", "strategy", "var"))
        if what == "var":
            self.vars["bonus"] = number
            return f"var {number}"
        if what == "strategy":
            other = {"append": "append_new_rows", "append_new_rows": "append"}
            self.strategies[model.name] = other[self.strategies[model.name]]
            return f"strategy of {model.name}"
        self.constants[model.name] = number
        return f"constant of {model.name}"

    def rename_one(self) -> str:
        """Give a model another name; the path of its file before."""
        model = self.rng.choice(self.models)
        before = self._path(model)
        self.names[model.name] = f"{model.name}_{self.rng.randrange(10**6)}"
        return before


def statements(rng: random.Random) -> list[str]:
    """What happens to the tables before a run."""

    def day() -> str:
        return f"date '2026-03-0{rng.randint(1, 6)}'"

    def row() -> str:
        return f"({rng.choice(('null', *range(1, 9)))}, {day()}, {rng.randint(-3, 9)})"

    some = (
        lambda: f"insert into src.events values {', '.join(row() for _ in range(3))}",
        lambda: f"insert into src.events values {row()}",
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
