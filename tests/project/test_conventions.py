"""The conventions of CONTRIBUTING.md, checked on the files and on what dbt makes of them.

Nothing here starts Spark: the project is parsed and compiled with the offline target `ci`.

Longer than 500 lines: its checks ask the same parsed and compiled project, made once.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlglot
import yaml
from dbt.adapters.sparksession.declared.business_time import selects_all_columns, utc_hours
from dbt.adapters.sparksession.keyed.zippers import PERIODS, VALID_TIME
from dbt.adapters.sparksession.reading.definitions import definition_of, differences, views_below
from dbt.adapters.sparksession.versions.nodes import is_published

from tests.support.dbt_project import REPO, DbtProject
from tests.support.faults import RUN_FAULTS, SQL_FAULTS, WORKER_FAULTS

WORD = r"[a-z0-9]+(?:_[a-z0-9]+)*"
# facts about an entity, or what it is joined to
DETAILS = "changelog|class|clean|coupon|customer|detail|event|index|latest|price|session|view|wide"
# layer -> what its models are called; group `folder`: the folder that the model lies in
NAMES = {
    "ods": rf"ods_binlog|ods_(?P<folder>[a-z0-9]+)__{WORD}",
    "dwd": rf"dwd_(?P<folder>[a-z0-9]+)__{WORD}_(?:{DETAILS})|dim_{WORD}",
    "dws": rf"dws_(?P<folder>[a-z0-9]+)__{WORD}_(?:1d|1m|1y|td|5m|10m)",
    "dqc": rf"dqc_(?P<folder>[a-z0-9]+)__{WORD}_(?:reconciliation|at_source)",
    "meta": rf"meta_{WORD}",
}
# layers with a folder for each business domain
DETAILED = ("dwd", "dws")
# layer -> kinds of nodes that it may read; ODS models read the log beside their sources
MAY_READ = {
    "ods": {"source", "ods_binlog"},
    "dwd": {"ods", "dwd", "dim", "seed", "snapshot"},
    "dws": {"dwd", "dim", "dws"},
}
READERS = "as_read_by|pinned|new_rows|new_changes|runs_of|changed_partitions|closed_periods"
# macros that read what they are given themselves
READING = (
    "tumble|slide|cumulate|session|window_rejects|upsert_stream|append_stream|beliefs|key_filter|"
    "join_index|touched_blocks|rows_of_blocks|message_outcomes"
)
# folders whose macros are called by name: the project's, and of the adapter's those beside the
# materializations
ENGINE_MACROS = "python_udfs/sparksession_adapter/dbt/include/sparksession/macros"
CALLED = ("operations", "reading", "strategies", "versions")
MACROS = ("macros", *(f"{ENGINE_MACROS}/{folder}" for folder in CALLED))

MACHINE_PATH = re.compile(r"(?<![\w.~])/(?:work/|root/|home/\w+/|tmp/bash)")
REGISTRY = re.compile(
    r"(?:pypi\.org|files\.pythonhosted\.org|repo1\.maven\.org|registry\.npmjs\.org)"
)


# ---- what is checked ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> DbtProject:
    return DbtProject(REPO, tmp_path_factory.mktemp("conventions") / "warehouse")


@pytest.fixture(scope="module")
def manifest(project: DbtProject) -> Any:
    """dbt's picture of the project."""
    return project.run("parse", "--target", "ci", "--no-partial-parse").raw


@pytest.fixture(scope="module")
def models(manifest: Any) -> list[Any]:
    found = [node for node in manifest.nodes.values() if node.resource_type == "model"]
    assert found
    return found


@pytest.fixture(scope="module")
def compiled(project: DbtProject) -> dict[str, str]:
    """SQL model -> the SQL that dbt compiles it to, inputs by their plain names."""
    done = project.run("compile", "--target", "ci", "--select", "resource_type:model")
    return {
        result.node.name: result.node.compiled_code
        for result in done.raw.results
        if result.node.language == "sql"
    }


def layer(node: Any) -> str:
    return Path(node.original_file_path).parts[1]


def sql_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (REPO / folder).rglob("*.sql"))


def yaml_files() -> list[Path]:
    folders = ("models", *MACROS, "seeds", "snapshots", "tests/dbt")
    return sorted(path for folder in folders for path in (REPO / folder).rglob("*.yml"))


def relative(path: Path) -> str:
    return path.relative_to(REPO).as_posix()


def tracked_texts() -> Iterator[tuple[str, str]]:
    """(path, text) of each text file under version control."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("no git repository")
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = REPO / name
        if path.is_file() and b"\0" not in (content := path.read_bytes()):
            yield name, content.decode("utf-8", errors="replace")


# ---- models -------------------------------------------------------------------------------


def test_models_are_named_and_placed_by_their_layer(models: list[Any]) -> None:
    misnamed = []
    for node in models:
        match = re.fullmatch(NAMES.get(layer(node), "(?!)"), node.name)
        folder = match.groupdict().get("folder") if match else None
        if match is None or folder not in (None, Path(node.original_file_path).parts[2]):
            misnamed.append(node.original_file_path)
    assert misnamed == []


def test_a_layer_reads_only_the_layers_that_it_may(models: list[Any], manifest: Any) -> None:
    wrong = []
    for node in models:
        for unique_id in node.depends_on.nodes:
            parent = manifest.nodes.get(unique_id) or manifest.sources[unique_id]
            kinds = {parent.name, parent.name.split("_")[0], str(parent.resource_type)}
            if layer(node) in MAY_READ and not kinds & MAY_READ[layer(node)]:
                wrong.append(f"{node.name} reads {parent.name}")
    assert wrong == []


def test_every_column_has_a_type(models: list[Any]) -> None:
    columns = [(node.name, column) for node in models for column in node.columns.values()]
    assert len(columns) > 900
    assert [(name, column.name) for name, column in columns if not column.data_type] == []


def test_what_is_published_is_public_and_under_contract(models: list[Any], manifest: Any) -> None:
    exposed = {name for found in manifest.exposures.values() for name in found.depends_on.nodes}
    published = [
        node for node in models if is_published(node.to_dict()) or node.unique_id in exposed
    ]
    assert len(published) > 45
    assert [node.name for node in published if node.access != "public"] == []
    without = [node for node in published if not node.config.contract.enforced]
    # dbt has no contracts for Python models: test_columns_have_the_types_of_the_yaml
    assert [node.name for node in without if node.language == "sql"] == []
    rest = [node for node in models if node not in published]
    assert {"private", "protected"} == {str(node.access) for node in rest}


def test_every_model_has_a_group_with_an_owner(models: list[Any], manifest: Any) -> None:
    owners = {group.name: group.owner.name for group in manifest.groups.values()}
    assert [node.name for node in models if not owners.get(node.group)] == []
    assert {node.group for node in models} == owners.keys()
    settings = yaml.safe_load((REPO / "dbt_project.yml").read_text(encoding="utf-8"))
    assert owners == settings["vars"]["group_owners"]
    # the models of a business domain have one owner, whichever layer they are of
    folders = {(node.path.split("/")[1], node.group) for node in models if layer(node) in DETAILED}
    assert folders == {(name, name) for name, _ in folders - {("dim", "dimensions")}} | {
        ("dim", "dimensions")
    }


def test_only_helpers_are_private_and_nobody_outside_their_group_reads_them(
    models: list[Any],
) -> None:
    """dbt refuses a reader of another group; what people read isn't private."""
    private = {node.unique_id: node for node in models if str(node.access) == "private"}
    assert {node.name for node in private.values()} == {
        "meta_message_block",
        "meta_order_chain_link",
        "dqc_trade__user_status_at_source",
    }
    readers = {
        parent: node.group
        for node in models
        for parent in node.depends_on.nodes
        if parent in private
    }
    assert readers == {unique_id: private[unique_id].group for unique_id in private}


def test_at_most_two_summary_layers_lie_over_the_details(models: list[Any]) -> None:
    """Days, months, years and totals of one count are levels of one layer; a view over several
    summaries is the second."""
    parents = {
        node.unique_id: [item for item in node.depends_on.nodes if ".dws_" in item]
        for node in models
        if layer(node) == "dws"
    }

    def depth(unique_id: str) -> int:
        below = [depth(item) + (family(item) != family(unique_id)) for item in parents[unique_id]]
        return max(below, default=1)

    depths = {parent: depth(parent) for parent in parents}
    assert {depth for depth, layers in depths.items() if layers > 2} == set()
    assert max(depths.values()) == 2


def family(unique_id: str) -> str:
    """A summary's name without its level."""
    return unique_id.rpartition("_")[0]


def test_incremental_sql_models_read_through_the_macros_that_pin(models: list[Any]) -> None:
    unpinned = []
    for node in models:
        kinds = ("incremental", "folded")
        if node.config.materialized not in kinds or node.language != "sql":
            continue
        # a join is given its two sides, and reads them through the macros itself
        reads = rf"(?:{READERS})\(|(?:{READING})\(\s*(?:rows=|relation=)?|'relation':|'index':"
        rest = re.sub(rf"(?:{reads})\s*(?:ref|source)\(", "", node.raw_code)
        if re.search(r"\b(?:ref|source)\(", rest):
            unpinned.append(node.name)
    assert unpinned == []


def test_an_edit_of_the_code_that_reads_a_log_refuses_no_run(models: list[Any]) -> None:
    for model in models:
        is_kept = model.language == "python" and model.config.materialized == "incremental"
        if is_kept and "source" not in model.config.meta:  # whose declaration its code compares
            assert model.config.extra["on_definition_change"] == "accept", model.name


def test_no_model_mixes_hours_of_utc_with_business_days(models: list[Any]) -> None:
    mixed = {
        node.name: list(utc_hours(node.raw_code, selects_all_columns(node.raw_code)))
        for node in models
    }
    assert {name: calls for name, calls in mixed.items() if calls} == {}


def test_models_say_what_a_row_is(models: list[Any]) -> None:
    assert [
        model.name for model in models if not model.description.startswith("One row per ")
    ] == []


def test_columns_are_described(models: list[Any]) -> None:
    bare = [
        f"{node.name}.{column.name}"
        for node in models
        for column in node.columns.values()
        if not column.description.strip()
    ]
    assert bare == []
    assert [node.name for node in models if not node.columns] == []


def test_the_columns_of_sql_models_are_listed_in_their_order(
    models: list[Any], compiled: dict[str, str]
) -> None:
    assert compiled
    differing = {}
    for node in models:
        if node.name in compiled:
            listed, selected = list(node.columns), seen_columns(node, compiled[node.name])
            if listed != selected:
                differing[node.name] = (listed, selected)
    assert differing == {}


def seen_columns(node: Any, sql: str) -> list[str]:
    """Columns that readers of a model see: of a folded one not all that its rows have."""
    fold, zipper = (node.config.get(item) or {} for item in ("fold", "zipper"))
    if "derived" in fold:
        sql = fold["derived"]["sql"]
    hidden = fold.get("hidden_columns", [])
    unseen = {fold.get("row_kind"), *([hidden] if isinstance(hidden, str) else hidden)}
    unseen |= {zipper.get(name) for name in ("row_kind", "time", "known_columns")}
    if zipper and "time" not in zipper:
        unseen.add(zipper["sequence"])
    selected = [name for name in output_columns(sql) if name not in unseen]
    return [*selected, *(PERIODS[zipper.get("period", VALID_TIME)] if zipper else [])]


def test_the_columns_of_a_source_table_are_listed(models: list[Any]) -> None:
    missing = {}
    for node in models:
        declared = (node.config.meta or {}).get("source", {}).get("columns", {})
        if absent := [name for name in declared if name not in node.columns]:
            missing[node.name] = absent
    assert missing == {}


def test_a_description_that_is_used_three_times_is_a_doc_block() -> None:
    described = Counter(
        " ".join(column.get("description", "").split())
        for path in yaml_files()
        for model in (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("models", [])
        for column in model.get("columns", [])
    )
    repeated = [text for text, times in described.items() if text and times > 2]
    assert [text for text in repeated if "doc(" not in text] == []


def test_models_begin_with_imports_and_end_with_their_last_cte() -> None:
    odd = []
    for path in sql_files("models"):
        text = path.read_text(encoding="utf-8")
        last = re.findall(rf"^({WORD}) as \($", text, re.MULTILINE)[-1:]
        ends = text.rstrip().endswith(f"\n\nselect * from {''.join(last)}")
        if not re.search(r"^with\n\n", text, re.MULTILINE) or not last or not ends:
            odd.append(relative(path))
    assert odd == []


def test_names_of_tests_and_unit_tests_are_no_longer_than_a_table_may_be(manifest: Any) -> None:
    names = [unit_test.name for unit_test in manifest.unit_tests.values()]
    names += [node.name for node in manifest.nodes.values() if node.resource_type == "test"]
    assert [name for name in names if len(name) > 100] == []


def test_the_words_of_a_dictionary_are_tested_to_be_there_once(
    models: list[Any], manifest: Any
) -> None:
    tests = {
        (node.attached_node, node.column_name, node.test_metadata.name)
        for node in manifest.nodes.values()
        if node.resource_type == "test" and node.test_metadata
    }
    seeds = {node.name: key for key, node in manifest.nodes.items() if node.resource_type == "seed"}
    used = {
        (seeds[given["seed"]], given["from"])
        for node in models
        for column in node.columns.values()
        if (given := column.meta.get("cleaning", {}).get("dictionary"))
    }
    assert used
    wanted = {(*row, test) for row in used for test in ("unique", "not_null")}
    assert wanted - tests == set()


def test_what_is_filtered_and_what_is_cleaned_is_counted(models: list[Any]) -> None:
    parents = {node.name: set(node.depends_on.nodes) for node in models}
    filtered = {
        node.unique_id
        for node in models
        if node.config.meta.get("source", {}).get("columns_of_interest")
    }
    cleaned = {
        node.unique_id
        for node in models
        if any("cleaning" in column.meta for column in node.columns.values())
    }
    assert len(filtered) > 1 and len(cleaned) > 1
    assert parents["meta_changes_of_interest"] == filtered
    assert parents["meta_cleaning"] == cleaned


def test_a_filter_that_would_leave_out_what_is_counted_is_refused(project: DbtProject) -> None:
    for table, item in {
        "ods_shop__coupon": "the count goes by biz_status, which the columns_of_interest of",
        "ods_shop__order_address": "must be a typed model whose meta.source has",
    }.items():
        call = f"{{{{ is_of_interest('{table}', count=user_status()) }}}}"
        done = project.run("compile", "--target", "ci", "--inline", call, expect_ok=False)
        assert item in f"{done.exception}{done.log}"


def test_sql_models_have_unit_tests(models: list[Any], manifest: Any) -> None:
    """A model that reads nothing, the calendar, has data tests alone."""
    tested = {unit_test.model for unit_test in manifest.unit_tests.values()}
    counted = [
        model
        for model in models
        if layer(model) in DETAILED and model.language == "sql" and model.depends_on.nodes
    ]
    assert [named.name for named in counted if named.name not in tested] == []


# ---- macros and generic tests -------------------------------------------------------------


def defined(path: Path, kind: str) -> dict[str, list[str]]:
    """Macros, or generic tests, of a file: name -> its arguments."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(rf"{{%-?\s*{kind}\s+(\w+)\s*\(([^)]*)\)", text)
    return {
        name: [part.split("=")[0].strip() for part in arguments.split(",") if part.strip()]
        for name, arguments in found
    }


def test_the_faults_that_tests_have_to_catch_stand_in_today_s_code() -> None:
    """`make soak` alone puts them in: till then nobody would see that a fault has no place now."""
    wrong = [
        fault.name
        for fault in (*SQL_FAULTS, *RUN_FAULTS, *WORKER_FAULTS)
        if (REPO / fault.file).read_text(encoding="utf-8").count(fault.right) != 1
    ]
    assert wrong == []


def test_no_test_module_imports_another_test_module_or_a_conftest() -> None:
    """What several of them need stands in tests/support."""
    wrong = {
        relative(path): found
        for path in sorted((REPO / "tests").rglob("*.py"))
        if (
            found := re.findall(
                r"(?:from|import) (tests\.\S*\b(?:test_\w+|conftest))", path.read_text()
            )
        )
    }
    assert wrong == {}


def test_a_macro_file_holds_one_public_macro_of_its_name() -> None:
    wrong = {}
    for path in sql_files(*MACROS):
        public = [name for name in defined(path, "macro") if not name.startswith("_")]
        if public != [path.stem]:
            wrong[relative(path)] = public
    assert wrong == {}


def test_a_generic_test_file_holds_one_test_of_its_name_after_a_comment() -> None:
    wrong = []
    for path in sql_files("tests/dbt/generic"):
        comment = re.match(r"\{#\n {4}\w.*?#\}\n", path.read_text("utf-8"), re.DOTALL)
        if list(defined(path, "test")) != [path.stem] or comment is None:
            wrong.append(relative(path))
    assert wrong == []


def test_public_macros_are_described_with_their_arguments() -> None:
    wrong = []
    for folder in sorted({path.parent for path in sql_files(*MACROS)}):
        entries = yaml.safe_load((folder / "_macros.yml").read_text(encoding="utf-8"))
        described = {entry["name"]: entry for entry in entries["macros"]}
        signatures: dict[str, list[str]] = {}
        for path in folder.glob("*.sql"):
            signatures |= defined(path, "macro")
        public = {name for name in signatures if not name.startswith("_")}
        wrong += [f"{name}: in one place only" for name in public ^ set(described)]
        for name in public & set(described):
            arguments = described[name].get("arguments", [])
            if not described[name].get("description"):
                wrong.append(f"{name}: no description")
            if [argument["name"] for argument in arguments] != signatures[name]:
                wrong.append(f"{name}: other arguments than {signatures[name]}")
            for argument in arguments:
                if not argument.get("type") or not argument.get("description"):
                    wrong.append(f"{name}({argument['name']}): no type or description")
    assert wrong == []


# ---- files --------------------------------------------------------------------------------


def test_lines_are_short_enough_to_be_read() -> None:
    """What sqlfluff doesn't see: Jinja, comments, YAML. To SQL it allows 88 characters."""
    assert [
        f"{relative(path)}: {line.strip()}"
        for path in [*sql_files("models", *MACROS, "tests/dbt"), *yaml_files()]
        for line in path.read_text(encoding="utf-8").splitlines()
        if len(line) > 100
    ] == []


def test_no_file_names_a_machines_folders_or_a_registry() -> None:
    found = [
        f"{name}:{number}: {line.strip()[:80]}"
        for name, text in tracked_texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if MACHINE_PATH.search(line) or REGISTRY.search(line)
    ]
    assert found == []


def test_every_locked_package_has_a_version_and_hashes() -> None:
    text = (REPO / "requirements.lock").read_text(encoding="utf-8")
    lines = text.replace("\\\n", " ").splitlines()
    entries = [line for line in lines if line.strip() and not line.startswith("#")]
    assert entries
    assert [
        line
        for line in entries
        if "==" not in line.split()[0] or not re.search(r"--hash=sha256:[0-9a-f]{64}\b", line)
    ] == []


# ---- columns of a query -------------------------------------------------------------------


def output_columns(sql: str) -> list[str]:
    """Names of the columns that a query of CTEs ending in `select * from <cte>` gives. A CTE may
    have CTEs of its own."""

    def columns(query: Any, known: dict[str, Any]) -> list[str]:
        ctes = known | {cte.alias: cte.this for cte in query.ctes}
        while not isinstance(query, sqlglot.exp.Select):  # a union has the names of its first query
            query = query.this
            ctes |= {cte.alias: cte.this for cte in query.ctes}
        names: list[str] = []
        for selected in query.selects:
            if selected.is_star:
                names += columns(ctes[query.args["from_"].this.name], ctes)
            else:
                names.append(selected.alias_or_name)
        return names

    return columns(sqlglot.parse_one(sql, read="spark"), {})


# vars that no SQL model's rows are made by, and what is right when they change between runs
# compared by themselves, or read by the run again: python_udfs.ingestion.declared.made_by
VARS_OF_TYPED_TABLES = {
    *("business_zone", "cut_time_max_ahead_hours", "topic_formats", "shop_topics", "shop_format"),
    *("shop_log_resets", "batches"),
}
VARS_OF_COMMANDS = {  # they set what a run reports, refuses or keeps, and change no row
    *("absent_columns_allowed", "allow_behind", "group_owners", "join_lookup_bytes"),
    *("join_rows_per_key", "max_line_mb", "open_window_days"),
    *("publish_versions", "reconciliation_threshold", "reject_least", "reject_threshold"),
    *("versions_days", "versions_kept", "worker_decoding_checked_in", "worker_decoding_from"),
}


def test_a_change_of_any_var_between_runs_is_seen_where_rows_are_made_by_it(
    manifest: Any, models: list[Any]
) -> None:
    settings = yaml.safe_load((REPO / "dbt_project.yml").read_text(encoding="utf-8"))["vars"]
    kinds = ("table", "incremental", "folded")
    stored = [
        model for model in models if model.config.materialized in kinds and model.language == "sql"
    ]

    def definitions(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {
            named.name: definition_of(
                named.to_dict(),
                manifest.macros,
                values,
                views_below(named.to_dict(), manifest.nodes),
            )
            for named in stored
        }

    before = definitions(settings)
    seen = {name for row in before.values() for name in row["vars"]}
    for name, value in settings.items():
        after = definitions(settings | {name: f"not {value}"})
        reported = {name: differences(before[name], after[name]) for name in before}
        for key, item in reported.items():
            if name in before[key]["vars"]:
                assert len(item) == 1 and item[0].startswith(f"var {name} (was "), (key, item)
            else:
                assert item == [], key
    assert settings.keys() - seen == (VARS_OF_TYPED_TABLES | VARS_OF_COMMANDS) - seen
    assert seen & VARS_OF_COMMANDS == set()
