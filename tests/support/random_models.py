"""Random projects of models as analysts write them, over two tables that anybody changes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from dbt.adapters.sparksession.declared.joins import COMMIT_NUMBER

from tests.support.dbt_project import REPO
from tests.support.random_sql import (
    chosen_queries,
    daily_queries,
    latest_queries,
    row_queries,
    whole_queries,
)

SOURCES = """
    sources:
      - name: src
        tables: [{name: events, config: {event_time: day}}, {name: rates}]
"""
PROJECT = """
    name: small
    version: "1.0"
    config-version: 2
    profile: binlog_warehouse
    on-run-start: "{{ start_run() }}"
    on-run-end: "{{ end_run(results) }}"
    seeds:
      +column_types: {id: int, day: date, v: int}
    data_tests:
      +severity: warn
"""
MACROS = {
    f"macros/{folder}/{path.name}": path.read_text(encoding="utf-8")
    for folder in ("joins", "windows")
    for path in sorted((REPO / "macros" / folder).glob("*.sql"))
}
MACROS["macros/events_by_macro.sql"] = """
    {% macro events_by_macro() %}
        {{- return(source('src', 'events')) -}}
    {% endmacro %}
"""
EVENTS = "{{ source('src', 'events') }}"
# a row that no statement changes: whoever reads all rows of the events finds it
KEPT_ROW = "(100, date '2026-03-09', 50)"
FINDS_KEPT_ROW = "(select count(distinct id) from {} where id = 100)"
STORED = ("table", "added", "days", "all", "changes", "python", "python_added")
STORED += ("seed", "snapshot", "windows", "microbatch", "chosen", "overwritten")
WITH_KEY = ("latest", "seed")  # no two rows have the same id
BUILT = ("seed", "snapshot")  # by `dbt build`, not by `dbt run`
FOLDERS = {"seed": ("seeds", "csv"), "snapshot": ("snapshots", "sql")}
RATES = "{{ source('src', 'rates') }}"


CONSTANT = "([constant] + {{ var('bonus', 0) }} + {{ shift() }})"


def config(**settings: object) -> str:
    """The beginning of a model's file."""
    return "{{ config(" + ", ".join(f"{key}={value!r}" for key, value in settings.items()) + ") }} "


def whole_config(kind: str) -> str:
    """The config of a model that is made of all rows of its inputs."""
    if kind == "all":
        return config(materialized="incremental", incremental_strategy="replace_all")
    return config(materialized=kind)


@dataclass(frozen=True)
class Model:
    """One model of a project.

    Attributes:
        name: what it was called first.
        text: its file, with `<name>` where it refers to another model, `[constant]` where it has a
            number and `[strategy]` where it names how it adds.
        kind: table, view, ephemeral, added, changes, days, all, merged, summed, latest, windows,
            joined, chosen, overwritten, microbatch, seed, snapshot, python or python_added; those
            of random_warehouses.
        twin: of a Python model, a seed or a model in batches, a query of the rows that it should
            have, over its input's table.
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
        shift: the number in the project's own macro.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.models: list[Model] = []
        self.names: dict[str, str] = {}
        self.constants: dict[str, int] = {}
        self.strategies: dict[str, str] = {}
        self.vars = {"bonus": 0}
        self.shift = 0
        makers = self._makers()
        for number in range(rng.randint(4, 7)):
            model = rng.choice(makers)(f"m{number}")
            self.models.append(model)
            self.names[model.name] = model.name
            self.constants[model.name] = 0
            self.strategies[model.name] = self.rng.choice(("append", "append_new_rows"))

    def _makers(self) -> tuple[Callable[[str], Model], ...]:
        """What makes a model of a name; the oftener a kind is there, the more there are of it."""
        makers = (self._whole, self._whole, self._whole, self._added, self._added, self._days)
        makers += (self._days, self._summed, self._latest, self._merged, self._python)
        makers += (self._python_added, self._changes, self._seed, self._snapshot, self._windows)
        return (*makers, self._joined, self._microbatch, self._chosen, self._overwritten)

    # ---- what a model reads ---------------------------------------------------------------

    def _any(self) -> str:
        """SQL that names a relation, by the name alone or by pinned(..)."""
        relation = self.rng.choice((EVENTS, EVENTS, "{{ events_by_macro() }}"))
        if self.models and self.rng.random() < 0.7:
            relation = f"{{{{ ref('<{self.rng.choice(self.models).name}>') }}}}"
            if self.rng.random() < 0.1:  # a var decides which
                names = [f"'<{self.rng.choice(self.models).name}>'" for _ in range(2)]
                relation = f"{{{{ ref([{', '.join(names)}][var('bonus', 0) % 2]) }}}}"
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
        asked = self._stored()
        if self.rng.random() < 0.5:
            return self.rng.choice(whole_queries(name, two))
        return self.rng.choice(
            (
                f"with recursive steps(id, day, v, n) as (select id, day, v, 0 from {name} "
                "union all select id, day, v + 1, n + 1 from steps where n < 2) "
                "select id, day, v from steps where n = 2",
                f"select id, day, v + other as v from {name} "
                "lateral view explode(array(1, 2)) as other",
                "select id, day, v + coalesce((select max(other.v) from "
                f"{two} as other where other.id = one.id), 0) as v from {name} as one",
                f"select id, day, v from {name} where id in (select id from {two})",
                f"select id, day, v from {name} where not exists (select 1 from {two} as other "
                "where other.day = date '2026-03-04' and other.v = 9)",
                f"select id, day, v from {name} except all select id, day, v from {two}",
                f"select id, day, v from {name} intersect select id, day, v from {two}",
                f"select one.id, one.day, other.v from {name} as one, lateral "
                f"(select max(v) as v from {two} as inner_rows where inner_rows.id = one.id) "
                "as other",
                f"{{%- set asked = {asked} -%}}{{%- set asked = run_query('select count(*) from ' "
                "~ asked).columns[0].values()[0] if execute else 0 -%}"
                f"select id, day, v + {{{{ asked }}}} as v from {name}",
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

    def _stored(self, but: str = "") -> str:
        """A table whose new rows may be asked for, not of one kind."""
        kinds = set(STORED) - {but}
        stored = [model.name for model in self.models if model.kind in kinds]
        if stored and self.rng.random() < 0.6:
            return f"ref('<{self.rng.choice(stored)}>')"
        return "source('src', 'events')"

    # ---- kinds of models ------------------------------------------------------------------

    def _whole(self, name: str) -> Model:
        kind, query = self.rng.choice(("table", "view", "ephemeral", "all")), self._query()
        if "run_query" in query:  # a view would keep the answer
            kind = self.rng.choice(("table", "all"))
        edited = f"select id, day, v + {CONSTANT} as v from ({query})"
        return Model(name, whole_config(kind) + edited, kind)

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
        if self.rng.random() < 0.5:
            more = row_queries(read, f"v + {CONSTANT}", found)
            return Model(name, self._adding() + self.rng.choice(more), "added")
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
        sql = self.rng.choice(daily_queries(f"({parts})", self._lookup()))
        return Model(name, settings + sql, "days")

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
        return Model(name, settings + self.rng.choice(latest_queries(read)), "latest")

    def _merged(self, name: str) -> Model:
        settings = config(
            materialized="incremental", incremental_strategy="merge", unique_key=["id", "v"]
        )
        # of the rates nothing ever goes, so that what a merge leaves is all that its query gives
        sql = f"select distinct rate as id, date '2026-03-01' as day, rate as v from {RATES}"
        return Model(name, settings + sql, "merged")

    def _chosen(self, name: str) -> Model:
        """Sums again those that new rows belong to."""
        settings = config(materialized="incremental", unique_key="id")
        stored = self._stored()
        queries = chosen_queries(f"{{{{ {stored} }}}}", f"{{{{ new_rows({stored}) }}}}")
        return Model(name, settings + self.rng.choice(queries), "chosen")

    def _overwritten(self, name: str) -> Model:
        settings = config(
            materialized="incremental",
            incremental_strategy="insert_overwrite",
            partition_by="day",
        )
        sums = (
            f"select max(id) as id, day, sum(v) + {CONSTANT} as v from {self._any()} group by day"
        )
        return Model(name, settings + sums, "overwritten")

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

    def _seed(self, name: str) -> Model:
        rows, twin = self._seed_rows()
        return Model(name, rows, "seed", twin)

    def _seed_rows(self) -> tuple[str, str]:
        """A seed's file, and a query of its rows."""
        ids = self.rng.sample(range(1, 9), self.rng.randint(1, 5))
        rows = [(key, f"2026-03-0{self.rng.randint(1, 6)}", self.rng.randint(-3, 9)) for key in ids]
        lines = [f"{key},{day},{v}" for key, day, v in rows]
        values = ", ".join(f"({key}, date '{day}', {v})" for key, day, v in rows)
        return (
            "\n".join(["id,day,v", *lines]) + "\n",
            f"select * from values {values} as seed(id, day, v)",
        )

    def _snapshot(self, name: str) -> Model:
        settings = config(
            unique_key="id",
            strategy="check",
            check_cols=["day", "v"],
            hard_deletes="invalidate",
        )
        sql = (
            "select id, best.day, best.v from (select id, max(struct(day, v)) as best "
            f"from {self._any()} where id is not null group by id)"
        )
        text = f"{{% snapshot <{name}> %}} {settings}{sql} {{% endsnapshot %}}"
        return Model(name, text, "snapshot")

    def _windows(self, name: str) -> Model:
        settings = config(
            materialized="incremental",
            incremental_strategy="replace_windows",
            partition_by="window_date",
        )
        size = self.rng.choice(("1 day", "2 days", "1 month"))
        # rows of windows have columns of the windows' own names
        rows = f"{{{{ tumble(rows={self._stored('windows')}, time='day', size='{size}') }}}}"
        few = self.rng.choice(("", " having count(*) > 1"))
        sql = (
            f"with windowed as ({rows}) select max(id) as id, window_date as day, sum(v) as v, "
            f"window_start, window_end, window_date from windowed group by all{few}"
        )
        return Model(name, settings + sql, "windows")

    def _joined(self, name: str) -> Model:
        known = [model.name for model in self.models if model.kind in WITH_KEY]
        if not known:
            return self._seed(name)
        settings = config(
            materialized="folded",
            unique_key=["id", "rid"],
            fold={"sequence": COMMIT_NUMBER, "row_kind": "row_kind"},
        )
        macro, on = self.rng.choice(
            (("many_to_many_join", {"v": "v"}), ("many_to_one_join", {"v": "id"}))
        )
        left, right = (self.rng.choice(known) for _ in range(2))
        joined = (
            f"{{{{ {macro}(left={{'relation': ref('<{left}>'), 'key': 'id', "
            f"'columns': ['id', 'day', 'v']}}, right={{'relation': ref('<{right}>'), 'key': 'id', "
            f"'columns': {{'id': 'rid', 'v': 'rv'}}}}, on={on!r}, "
            f"kind='{self.rng.choice(('inner', 'left'))}') }}}}"
        )
        return Model(name, f"{settings}with joined as ({joined}) select * from joined", "joined")

    def _microbatch(self, name: str) -> Model:
        settings = config(
            materialized="incremental",
            incremental_strategy="microbatch",
            event_time="day",
            batch_size="year",
            begin="2026-01-01",
            partition_by="years(day)",
        )
        rows = f"select id, day, v * 3 + {CONSTANT} as v from [events]"
        twin = rows.replace("[events]", "src.events").replace("{{ var('bonus', 0) }}", "[bonus]")
        twin = twin.replace("{{ shift() }}", "[shift]")
        return Model(name, settings + rows.replace("[events]", EVENTS), "microbatch", twin)

    # ---- the project ----------------------------------------------------------------------

    def files(self) -> dict[str, str]:
        """Path -> text of the project as it is now."""
        found = {"models/_sources.yml": SOURCES, "dbt_project.yml": PROJECT} | MACROS
        found["macros/shift.sql"] = f"{{% macro shift() %}}{self.shift}{{% endmacro %}}"
        for model in self.models:
            found[self._path(model)] = self._filled(model, model.text)
        return found

    def _filled(self, model: Model, text: str) -> str:
        """A text of a model with the present names, numbers and strategy in it."""
        text = self.named(text).replace("[constant]", str(self.constants[model.name]))
        text = text.replace("[bonus]", str(self.vars["bonus"])).replace("[shift]", str(self.shift))
        return text.replace("[strategy]", self.strategies[model.name])

    def twin(self, model: Model) -> str:
        """The query of a model's twin as it is now."""
        return self._filled(model, model.twin)

    @property
    def needs_build(self) -> bool:
        """Whether `dbt run` alone doesn't make all that models read."""
        return any(model.kind in BUILT for model in self.models)

    def named(self, text: str) -> str:
        """A text with the present names of the models in it."""
        return re.sub(r"<(m\d+)>", lambda match: self.names[match[1]], text)

    def _path(self, model: Model) -> str:
        folder, ending = FOLDERS.get(model.kind, ("models", "py" if model.is_python else "sql"))
        return f"{folder}/{self.names[model.name]}.{ending}"

    def edit(self) -> str:
        """Change a number in a model's SQL, its config or the var; what was done."""
        model = self.rng.choice(self.models)
        number = self.rng.randint(1, 99)
        what = self.rng.choice(("constant", "constant", "strategy", "var", "macro"))
        if what == "macro":
            self.shift = number
            return f"macro {number}"
        if what == "var":
            self.vars["bonus"] = number
            return f"var {number}"
        if what == "strategy":
            other = {"append": "append_new_rows", "append_new_rows": "append"}
            self.strategies[model.name] = other[self.strategies[model.name]]
            return f"strategy of {model.name}"
        self.constants[model.name] = number
        return f"constant of {model.name}"

    def edit_seed(self) -> bool:
        """Give a seed other rows; whether there is a seed."""
        seeds = [place for place, model in enumerate(self.models) if model.kind == "seed"]
        if seeds:
            place = self.rng.choice(seeds)
            rows, twin = self._seed_rows()
            self.models[place] = replace(self.models[place], text=rows, twin=twin)
        return bool(seeds)

    def rename_one(self) -> str | None:
        """Give a model another name; the path of its file before. None where all that there is
        has to be built before models can read it by another name."""
        models = [model for model in self.models if model.kind not in BUILT]
        if not models:
            return None
        model = self.rng.choice(models)
        before = self._path(model)
        self.names[model.name] = f"{model.name}_{self.rng.randrange(10**6)}"
        return before
