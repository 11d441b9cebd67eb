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
EVENTS = "{{ source('src', 'events') }}"
RATES = "{{ source('src', 'rates') }}"


def config(**settings: object) -> str:
    return "{{ config(" + ", ".join(f"{key}={value!r}" for key, value in settings.items()) + ") }} "


@dataclass(frozen=True)
class Model:
    """One model of a project.

    Attributes:
        name: what it was called first.
        text: its file, with `<name>` where it refers to another model.
        kind: table, view, ephemeral, added, days, all, merged, summed, latest or python.
    """

    name: str
    text: str
    kind: str


class RandomProject:
    """Models that are made by a seed. Every one has the columns id, day and v.

    What each should hold is what its own SQL gives when it is built for the first time: one that
    adds to its rows, or merges into them, is made so that nothing else could be right.

    Attributes:
        models: in an order in which each refers to earlier ones alone.
        names: first name of each -> its present one.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.models: list[Model] = []
        self.names: dict[str, str] = {}
        makers = (self._whole, self._whole, self._whole, self._added, self._days, self._days)
        makers += (self._summed, self._latest, self._merged, self._python)
        for number in range(rng.randint(4, 7)):
            model = rng.choice(makers)(f"m{number}")
            self.models.append(model)
            self.names[model.name] = model.name

    # ---- what a model reads ---------------------------------------------------------------

    def _any(self) -> str:
        """SQL that names a relation, by the name alone or by pinned(..)."""
        relation = EVENTS
        if self.models and self.rng.random() < 0.7:
            relation = f"{{{{ ref('<{self.rng.choice(self.models).name}>') }}}}"
        if self.rng.random() < 0.4:
            relation = relation.replace("{{ ", "{{ pinned(").replace(" }}", ") }}")
        ephemeral = {f"<{one.name}>" for one in self.models if one.kind == "ephemeral"}
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
        one, two, lookup = self._any(), self._any(), self._lookup()
        return self.rng.choice(
            (
                f"select id, day, v + {lookup} as v from {one}",
                f"with a as (select * from {one}), b as (select * from {two}) "
                "select a.id, a.day, a.v + b.v as v from a inner join b on a.id <=> b.id",
                f"select id, day, v from {one} union all select id, day, -v from {two}",
                f"select max(id) as id, day, sum(v) + {lookup} as v from {one} group by day",
                "select id, day, v from (select ranked.*, row_number() over "
                f"(partition by id order by day desc, v desc) as place from {one} as ranked) "
                "where place = 1",
                f"select id, day, v from {one} as kept where exists (select 1 from {two} as found "
                "where found.id = kept.id and found.v >= 0)",
            )
        )

    def _stored(self) -> str:
        """A table whose new rows may be asked for."""
        stored = [one.name for one in self.models if one.kind in ("table", "added", "days", "all")]
        if stored and self.rng.random() < 0.6:
            return f"ref('<{self.rng.choice(stored)}>')"
        return "source('src', 'events')"

    # ---- kinds of models ------------------------------------------------------------------

    def _whole(self, name: str) -> Model:
        kind = self.rng.choice(("table", "view", "ephemeral", "all"))
        settings = {"materialized": kind}
        if kind == "all":
            settings = {"materialized": "incremental", "incremental_strategy": "replace_all"}
        return Model(name, config(**settings) + self._query(), kind)

    def _added(self, name: str) -> Model:
        strategy = self.rng.choice(("append", "append_new_rows"))
        settings = config(materialized="incremental", incremental_strategy=strategy)
        read = f"{{{{ new_rows({self._stored()}) }}}}"
        return Model(name, f"{settings}select id, day, v * 2 as v from {read}", "added")

    def _days(self, name: str) -> Model:
        days = [f"ref('<{one.name}>')" for one in self.models if one.kind == "days"]
        taken = self.rng.sample(
            ["source('src', 'events')", *days], self.rng.randint(1, len(days) + 1)
        )
        settings = config(
            materialized="incremental",
            incremental_strategy="replace_partitions",
            partition_by="day",
        )
        parts = " union all ".join(
            f"select id, day, v from {{{{ changed_partitions({one}, by='day') }}}}" for one in taken
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
        call = 'dbt.source("src", "events")'
        known = [one.name for one in self.models if one.kind != "ephemeral"]
        if known and self.rng.random() < 0.7:
            call = f'dbt.ref("<{self.rng.choice(known)}>")'
        text = (
            "def model(dbt, session):\n"
            '    dbt.config(materialized="table")\n'
            f'    return {call}.select("id", "day", "v").where("v >= 0")\n'
        )
        return Model(name, text, "python")

    # ---- the project ----------------------------------------------------------------------

    def files(self) -> dict[str, str]:
        """Path -> text of the project as it is now."""
        found = {"models/_sources.yml": SOURCES}
        for model in self.models:
            text = re.sub(r"<(m\d+)>", lambda match: self.names[match[1]], model.text)
            ending = "py" if model.kind == "python" else "sql"
            found[f"models/{self.names[model.name]}.{ending}"] = text
        return found

    def rename_one(self) -> str:
        """Give a model another name; the path of its file before."""
        model = self.rng.choice(self.models)
        before = self.names[model.name]
        self.names[model.name] = f"{model.name}_{self.rng.randrange(10**6)}"
        return f"models/{before}.{'py' if model.kind == 'python' else 'sql'}"


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
