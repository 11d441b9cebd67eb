"""What a model's code reads beside tables belongs to its definition: YAML, the graph, imports."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest
from dbt.adapters.sparksession.reading.definitions import definition_of, differences

pytestmark = pytest.mark.in_turn

SOURCES = """
    sources:
      - name: src
        tables: [{name: x}]
"""
COUNTED_IN_PYTHON = """
    def model(dbt, session):
        dbt.config(
            materialized="incremental",
            incremental_strategy="merge",
            unique_key="k",
            on_definition_change="{what}",
        )
        rows = dbt.source("src", "x")
        if dbt.is_incremental and dbt.inputs_unchanged():
            return None
        count = rows.count() * dbt.project_var("times", 1)
        return session.createDataFrame([(1, count)], "k int, n bigint")
"""


def run_before_and_after(make_project, files, changed):
    """A project of these files over one row, and its second run, which some files changed for."""
    made = make_project({"models/_sources.yml": SOURCES, **files})
    made.query("create namespace if not exists src")
    made.query("create table src.x (id int, meta int) using iceberg")
    made.query("insert into src.x values (1, 1)")
    made.run("run")
    made.write(changed)
    return made, made.run("run", expect_ok=None)


@pytest.mark.parametrize(
    "read",
    [
        "config.meta_get('times', 1)",
        "config.get('meta')['times']",
        "model.config.meta.times",
        "model['config']['meta']['times']",
        "times()",
    ],
)
def test_another_meta_is_refused_where_the_sql_reads_it(make_project, read):
    def yml(times: int) -> dict[str, str]:
        meta = f"config: {{meta: {{times: {times}}}}}"
        return {"models/_m.yml": f"models: [{{name: m, {meta}}}, {{name: o, {meta}}}]"}

    head = "{{ config(materialized='incremental', incremental_strategy='merge', unique_key='k') }}"
    source = "from {{ pinned(source('src', 'x')) }}"
    files = {
        "macros/times.sql": "{% macro times() %}{{ config.meta_get('times') }}{% endmacro %}",
        "models/m.sql": f"{head} select id as k, {{{{ {read} }}}} as n {source}",
        "models/o.sql": f"{head} select id as k, x.meta as n {source} as x",
    }

    made, outcome = run_before_and_after(make_project, files | yml(2), yml(5))

    assert "another definition: the meta that it reads. Run it" in outcome.results["m"].message
    assert outcome.results["o"].message == "nothing new"
    made.run("run", "--full-refresh", "-s", "m")
    assert made.column("select n from dw.m") == [5]
    assert made.run("run").results["m"].message == "nothing new"


@pytest.mark.parametrize("read", ["config.get('lookback', 1)", "model.config.lookback"])
def test_another_config_that_makes_no_row_is_refused_where_the_sql_reads_it(make_project, read):
    def model(lookback: int, n: str) -> str:
        config = "materialized='incremental', incremental_strategy='merge', unique_key='k'"
        config = f"{{{{ config({config}, lookback={lookback}, tags=['t{lookback}']) }}}}"
        return f"{config} select id as k, {n} as n from {{{{ pinned(source('src', 'x')) }}}}"

    def models(lookback: int) -> dict[str, str]:
        read_by_sql = model(lookback, f"{{{{ {read} }}}}")
        return {"models/m.sql": read_by_sql, "models/o.sql": model(lookback, "'lookback'")}

    _, outcome = run_before_and_after(make_project, models(2), models(5))

    assert "definition: a config that its SQL reads. Run it" in outcome.results["m"].message
    assert outcome.results["o"].message == "nothing new"


RATES = """
    {% macro rate() %}RATE{% endmacro %}
    {% macro looked_up() %}{{ context['rate']() }}{% endmacro %}
    {% macro by_name(name) %}{{ context[name]() }}{% endmacro %}
"""


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        ("{{ looked_up() }}", "the SQL of a macro that it calls"),
        ("{{ by_name('rate') }}", "the SQL of a macro that it calls"),
        ("{{ env_var('HUNTED_' ~ 'RATE', '2') }}", "the environment variable HUNTED_RATE"),
        ("{% set given = var %}{{ given('rate', 2) }}", "the vars, of which"),
        ("{{ builtins['var']('rate', 2) }}", "the vars, of which"),
        ("{{ 5 if var.has_var('rate') else 2 }}", "the vars, of which"),
    ],
)
def test_what_the_sql_reads_by_another_way_of_writing_is_refused_once_it_is_otherwise(
    make_project, read, reason
):
    head = "{{ config(materialized='incremental', incremental_strategy='merge', unique_key='k') }}"
    made = make_project(
        {
            "models/_sources.yml": SOURCES,
            "macros/rates.sql": RATES.replace("RATE", "2"),
            "models/m.sql": f"{head} select id as k, {read} as n from "
            "{{ pinned(source('src', 'x')) }}",
        }
    )
    made.query("create namespace if not exists src")
    made.query("create table src.x (id int) using iceberg")
    made.query("insert into src.x values (1)")
    made.run("run")
    assert made.run("run").results["m"].message == "nothing new"

    made.write({"macros/rates.sql": RATES.replace("RATE", "5")})
    made.env["HUNTED_RATE"] = "5"
    message = made.run("run", vars={"rate": 5}, expect_ok=False).results["m"].message

    assert f"another definition: {reason}" in message
    made.run("run", "--full-refresh", vars={"rate": 5})
    assert made.column("select n from dw.m") == [5]


def test_a_macro_that_runs_call_by_turns_is_no_difference(make_project):
    model = """
        {{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}
        select id from {{ new_rows(source('src', 'x')) }}
        {% if is_incremental() %} where id > {{ least() }} {% else %} where id > {{ fewest() }}
        {% endif %}
    """
    macros = "{% macro least() %}0{% endmacro %}{% macro fewest() %}0{% endmacro %}"
    files = {"models/m.sql": model, "macros/least.sql": macros}

    made, outcome = run_before_and_after(make_project, files, {})

    assert outcome.results["m"].message == "nothing new"
    made.query("insert into src.x values (2, 2)")
    assert made.run("run").results["m"].message == "+1 rows"
    made.write({"macros/least.sql": macros.replace("fewest() %}0", "fewest() %}1")})
    message = made.run("run", expect_ok=False).results["m"].message
    assert "another definition: the SQL of a macro that it calls" in message


SUMS = """
    {{ config(materialized='incremental', incremental_strategy='merge', unique_key='k') }}
    select id as k, {%- for HOW %} '{{ name }}' || {%- endfor %} '' as names, graph
    from {{ pinned(source('src', 'x')) }} cross join (select 'nodes' as graph)
"""


@pytest.mark.parametrize(
    ("read", "names", "reason"),
    [
        ("name in model.columns", "cd", "the YAML that its SQL reads"),
        ("name in model['tags']", "uv", "the YAML that its SQL reads"),
        ("n in graph.nodes.values() for name in n.tags", "uv", "dbt's graph, which its SQL reads"),
        ("n in all_models() for name in n.tags", "uv", "dbt's graph, which its SQL reads"),
    ],
)
def test_what_the_sql_makes_of_yaml_or_graph_is_refused_once_it_is_otherwise(
    make_project, read, names, reason
):
    def yml(name: str, tag: str) -> dict[str, str]:
        return {
            "models/_m.yml": f"""
                models:
                  - {{name: m, config: {{tags: [{tag}]}}, columns: [{{name: {name}}}]}}
                  - {{name: o}}
            """
        }

    first, _, second = read.partition(" for ")
    loops = f"{first} %}}{{%- for {second}" if second else first
    ends = "{%- endfor %}" * (2 if second else 1)
    files = {
        "macros/all_models.sql": """
            {% macro all_models() %}
                {% do return((graph.nodes or {}).values() | list) %}
            {% endmacro %}
        """,
        "models/m.sql": SUMS.replace("HOW", loops).replace("{%- endfor %}", ends),
        "models/o.sql": SUMS.replace("HOW", "name in ['x']"),
    }

    made, outcome = run_before_and_after(
        make_project, files | yml(names[0], names[0]), yml(names[1], names[1])
    )

    assert f"another definition: {reason}. Run it" in outcome.results["m"].message
    assert outcome.results["o"].message == "nothing new"
    made.run("run", "--full-refresh", "-s", "m")
    assert made.column("select names from dw.m") == [names[1]]
    assert made.run("run").results["m"].message == "nothing new"


@pytest.mark.parametrize(
    "call", ["{{ applied(factor) }}", "{{ named('fac' ~ 'tor') }}", "{{ listed()[0]() }}"]
)
def test_another_macro_that_the_sql_has_as_a_value_is_refused(make_project, call):
    head = "{{ config(materialized='incremental', incremental_strategy='merge', unique_key='k') }}"
    source = "from {{ pinned(source('src', 'x')) }}"
    factor = "{% macro factor() %}{{ other_factor() }}{% endmacro %}"
    files = {
        "macros/factor.sql": factor,
        "macros/other_factor.sql": "{% macro other_factor() %}2{% endmacro %}",
        "macros/applied.sql": "{% macro applied(what) %}{{ what() }}{% endmacro %}",
        "macros/named.sql": "{% macro named(name) %}{{ context[name]() }}{% endmacro %}",
        "macros/listed.sql": "{% macro listed() %}{% do return([factor]) %}{% endmacro %}",
        "models/m.sql": f"{head} select id as k, {call} as n {source}",
        # a name of its own is no macro
        "models/o.sql": f"{head} {{% set factor = 2 %}} select id as k, {{{{ factor }}}} as n "
        f"{source}",
    }
    other = {"macros/other_factor.sql": "{% macro other_factor() %}5{% endmacro %}"}

    made, outcome = run_before_and_after(make_project, files, other)

    assert "definition: the SQL of a macro that it" in outcome.results["m"].message
    assert outcome.results["o"].message == "nothing new"
    made.run("run", "--full-refresh", "-s", "m")
    assert made.column("select n from dw.m") == [5]


@pytest.mark.parametrize(
    "call",
    [
        "factor()",
        'dbt.any_value("id")',
        "by_name()",
        "adapter.dispatch('factor', 'small')()",
    ],
)
def test_a_macro_that_takes_the_place_of_another_is_refused(make_project, call):
    head = "{{ config(materialized='incremental', incremental_strategy='merge', unique_key='k') }}"
    source = "from {{ pinned(source('src', 'x')) }}"
    files = {
        "macros/factor.sql": """
            {% macro factor() %}{{ return(adapter.dispatch('factor', 'small')()) }}{% endmacro %}
            {% macro default__factor() %}2{% endmacro %}
        """,
        "macros/by_name.sql": "{% macro by_name() %}{{ type_int() }}{% endmacro %}",
        "models/m.sql": f"{head} select id as k, '{{{{ {call} }}}}' as n {source}",
        "models/o.sql": f"{head} select id as k, {{{{ dbt.length('id') }}}} as n {source}",
    }
    later = {
        "macros/later.sql": """
            {% macro sparksession__factor() %}5{% endmacro %}
            {% macro default__any_value(expression) %}5{% endmacro %}
            {% macro type_int() %}5{% endmacro %}
        """
    }

    made, outcome = run_before_and_after(make_project, files, later)

    assert "definition: the SQL of a macro that it" in outcome.results["m"].message
    assert outcome.results["o"].message == "nothing new"
    made.run("run", "--full-refresh", "-s", "m")
    assert made.column("select n from dw.m") == ["5"]
    assert made.run("run", vars={"read_by_none": 1}).results["m"].message == "nothing new"


@pytest.mark.parametrize(
    ("hook", "later", "reason"),
    [
        ("set x.y = 1", "set x.y = 2", "what its pre_hook sets in its session"),
        ("", "declare variable y = 1", "what its pre_hook sets in its session"),
        ("set x.y = {{ var('y', 1) }}", None, "what its pre_hook sets in its session"),
        ("{{ setting() }}", None, "the SQL of a macro that it calls"),
    ],
)
def test_what_a_pre_hook_sets_in_the_session_of_its_model_is_refused_once_it_is_otherwise(
    make_project, hook, later, reason
):
    def of(hook: str, macro: str) -> dict[str, str]:
        hooks = [text for text in (hook, "select {{ var('other', 1) }}") if text]
        return {
            "models/m.sql": """
                {{ config(materialized='incremental', unique_key='id') }}
                select id, 1 as n from {{ new_rows(source('src', 'x')) }}
            """,
            "models/_m.yml": f"models: [{{name: m, config: {{pre_hook: {json.dumps(hooks)}}}}}]",
            "macros/setting.sql": f"{{% macro setting() %}}set x.y = {macro}{{% endmacro %}}",
        }

    made, outcome = run_before_and_after(make_project, of(hook, "1"), {})
    assert outcome.results["m"].message == "nothing new"
    assert made.run("run", vars={"other": 2}).results["m"].message == "nothing new"

    made.write(of(hook if later is None else later, "2"))
    outcome = made.run("run", vars={"y": 2}, expect_ok=False)

    assert f"another definition: {reason}. Run it" in outcome.results["m"].message


def test_another_macro_of_the_models_own_strategy_is_refused(make_project):
    def files(added: int) -> dict[str, str]:
        return {
            "macros/added.sql": f"{{% macro added() %}}{added}{{% endmacro %}}",
            "macros/adding.sql": """
                {% macro get_incremental_adding_sql(arg_dict) %}
                    insert into {{ arg_dict['target_relation'] }}
                    select id, n + {{ added() }} from {{ arg_dict['temp_relation'] }}
                {% endmacro %}
            """,
            "models/m.sql": """
                {{ config(materialized='incremental', incremental_strategy='adding') }}
                select id, 1 as n from {{ new_rows(source('src', 'x')) }}
            """,
        }

    made, outcome = run_before_and_after(make_project, files(0), files(5))

    reason = "another definition: the SQL of its incremental_strategy's macro. Run it"
    assert reason in outcome.results["m"].message
    made.run("run", "--full-refresh")
    made.query("insert into src.x values (2, 2)")
    made.run("run")
    assert made.column("select n from dw.m order by id") == [1, 6]


def test_rows_of_an_adapter_that_noted_neither_meta_nor_read_configs_stay():
    old = {"sql": "1", "macros": "1", "engine": 1, "config": {}, "vars": {}}
    later = {"meta": "2", "read": "3", "yaml": "4", "graph": "5", "handed": "6", "imports": "7"}
    assert differences(old, old | later | {"vars": {"scale": "3"}}) == []
    assert differences(old, old | {"vars": {"scale": "3"}}) == ["var scale (was not used, is 3)"]
    assert differences(old | {"meta": "1"}, old | {"meta": "2"}) == ["the meta that it reads"]
    live, both = ({"vars": {"batches": value}} for value in ('["live"]', '["live", "fix"]'))
    assert differences(old, old | both) == []
    [named] = differences(old | live, old | both)
    assert named == 'var batches (was ["live"], is ["live", "fix"])'


def numbers(project) -> list[int]:
    return [project.column(f"select n from dw.{model}")[0] for model in ("merged", "rebuilt")]


@pytest.fixture
def in_python(make_project):
    made = make_project(
        {
            "models/_sources.yml": SOURCES,
            "models/merged.py": COUNTED_IN_PYTHON.replace("{what}", "refuse"),
            "models/rebuilt.py": COUNTED_IN_PYTHON.replace("{what}", "rebuild"),
        }
    )
    made.query("create namespace if not exists src")
    made.query("create table src.x (id int) using iceberg")
    made.query("insert into src.x values (1), (2)")
    made.run("run")
    return made


def test_a_python_model_of_other_code_or_another_var_is_refused_or_rebuilt(in_python):
    message = in_python.run("run", vars={"times": 3}, expect_ok=False).results["merged"].message
    assert "definition: var times (was null, is 3)" in message
    assert numbers(in_python) == [2, 6]
    for name in ("merged", "rebuilt"):
        code = (in_python.root / f"models/{name}.py").read_text()
        in_python.write({f"models/{name}.py": code.replace(".count()", ".count() + 10")})
    message = in_python.run("run", expect_ok=False).results["merged"].message
    assert (
        "merged (models/merged.py): its rows were made by another definition: its code" in message
    )
    assert numbers(in_python) == [2, 12]
    in_python.run("run", "-s", "merged", vars={"accept_definition": ["merged"]})
    assert in_python.run("run").results["merged"].message == "nothing new"
    assert numbers(in_python) == [2, 12]
    in_python.run("run", "--full-refresh")
    assert numbers(in_python) == [12, 12]


@pytest.mark.parametrize(
    "imports",
    [
        "from sums.parts import part",
        "import sums.whole\n        part = sums.whole.part",
        "from sums import *\n",
        "import importlib; part = importlib.import_module('sums.parts').part",
    ],
)
def test_other_code_that_a_python_model_imports_is_refused(make_project, imports):
    if "*" in imports:  # Python takes it outside of a function alone
        code = imports + dedent(COUNTED_IN_PYTHON)
    else:
        code = COUNTED_IN_PYTHON.replace("    rows =", f"    {imports}\n        rows =", 1)
    code = code.replace("rows.count()", "part(rows.count())").replace("{what}", "refuse")
    parts = "def part(count):\n    return count"
    files = {
        "models/merged.py": code,
        "sums/__init__.py": "from .parts import part",
        "sums/whole.py": "from . import part",
        "sums/parts.py": parts,
        "sums/other.py": "x = 1",
    }
    unused = {"sums/other.py": "x = 2", "sums/parts.py": parts + "  # all of it"}

    made, outcome = run_before_and_after(make_project, files, unused)
    assert outcome.results["merged"].message == "nothing new"
    made.write({"sums/parts.py": parts + " + 10"})

    message = made.run("run", expect_ok=False).results["merged"].message
    assert "another definition: the project's code that it imports. Run it" in message


@pytest.mark.parametrize(
    ("read", "changed", "reason"),
    [
        ("dbt.project_var('scale', 1)", {"vars": {"scale": 3}}, "var scale (was null, is 3)"),
        ("dbt.meta.get('scale', 1)", {"yml": "{scale: 3}"}, "the meta that it reads"),
    ],
)
def test_what_imported_code_reads_is_refused_once_it_is_otherwise(
    make_project, read, changed, reason
):
    module = f"scales_by_{reason.split()[0]}"  # Python keeps what it imported
    imports = f"    from {module} import scaled\n        rows ="
    code = COUNTED_IN_PYTHON.replace("    rows =", imports, 1)
    code = code.replace("rows.count()", "scaled(rows.count(), dbt)").replace("{what}", "refuse")

    def yml(meta: str) -> dict[str, str]:
        return {"models/_m.yml": f"models: [{{name: merged, config: {{meta: {meta}}}}}]"}

    files = {
        "models/merged.py": code,
        f"{module}.py": f"def scaled(count, dbt):\n    return count * {read}",
    }
    made, outcome = run_before_and_after(make_project, files | yml("{}"), {})
    assert outcome.results["merged"].message == "nothing new"
    made.write(yml(changed.get("yml", "{}")))

    outcome = made.run("run", vars=changed.get("vars"), expect_ok=False)

    assert f"another definition: {reason}. Run it" in outcome.results["merged"].message


def test_comments_and_settings_of_no_row_are_no_difference_of_a_python_model(in_python):
    code = (in_python.root / "models/merged.py").read_text()
    code = "# a comment\n" + code.replace('unique_key="k",', 'unique_key="k", tags=["seldom"],')
    in_python.write({"models/merged.py": code})
    assert in_python.run("run", "-s", "merged").results["merged"].message == "nothing new"
    in_python.write({"models/merged.py": code.replace('"merge"', '"append"')})
    message = in_python.run("run", "-s", "merged", expect_ok=False).results["merged"].message
    assert "definition: config incremental_strategy" in message


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("select '{{ target.name }}' as n", "the target's name"),
        ("{% set t = target['name'] %} select '{{ t }}' as n", "the target's name"),
        ("{% set t = target %} select '{{ t.name }}' as n", "the target"),
        ("select {{ by_target(target) }} as n", "the target"),
        ("select {{ {'of': target}.of.name }} as n", "the target"),
    ],
)
def test_the_target_is_a_part_of_a_definition_also_as_a_value(sql: str, named: str) -> None:
    node = {"raw_code": sql, "depends_on": {"macros": []}, "config": {}, "language": "sql"}
    dev, prod = (
        definition_of(node, {}, {}, target={"name": name, "schema": "dw", "threads": threads})
        for name, threads in (("dev", 1), ("prod", 4))
    )
    assert differences(dev, prod) == [named]
    other = definition_of(node, {}, {}, target={"name": "dev", "schema": "dw", "threads": 4})
    assert differences(dev, other) == []
