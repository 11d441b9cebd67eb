"""What models declare, looked at before anything is done."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache

from dbt.adapters.sparksession.declared.arguments import (
    check_arguments,
    check_grain,
    check_unique_key,
    check_whole_numbers,
    columns_of_interest,
)
from dbt.adapters.sparksession.declared.business_time import (
    DAY_COLUMN,
    selects_all_columns,
    utc_hours,
    utc_hours_of_macro,
)
from dbt.adapters.sparksession.declared.chain_plans import chain_plan
from dbt.adapters.sparksession.declared.cleaning import check_cleaning
from dbt.adapters.sparksession.declared.declarations import checked
from dbt.adapters.sparksession.declared.derived_configs import overwritten_in_yaml, yaml_config
from dbt.adapters.sparksession.declared.outdated_files import outdated_files
from dbt.adapters.sparksession.declared.source_names import odd_source_names
from dbt.adapters.sparksession.declared.topics import topic_regex
from dbt.adapters.sparksession.edges import Foreign, Given, Json, Node, Settings
from dbt.adapters.sparksession.keyed.tables import (
    FOLDED,
    KeyedTables,
)
from dbt.adapters.sparksession.project_code import project_function
from dbt.adapters.sparksession.reading.microbatch import (
    called_macros,
    is_microbatch,
    microbatch_problem,
)
from dbt.adapters.sparksession.reading.news import (
    models_read_as_sources,
    unrecorded_reads,
)
from dbt.adapters.sparksession.sql import quoted, unquoted
from dbt.adapters.sparksession.sql_texts import split_statements
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import CompilationError


class Declarations:
    """Looks at what models declare in YAML and in their configs."""

    def __init__(self, warehouse: Warehouse, keyed: KeyedTables) -> None:
        self._warehouse = warehouse
        self._keyed = keyed

    def tested_model(self, model: Node) -> Settings:
        """A context's `model`; of a unit test the model that it tests, with columns and config."""
        tested = model.get("tested_node_unique_id")
        if tested is None:
            return model
        manifest: Foreign = self._warehouse.manifest()
        return manifest.nodes[tested].to_dict()

    @staticmethod
    def declared_sources(graph: Settings) -> list[Settings]:
        """The `meta.source` of the models in dbt's graph, which is empty while dbt parses.

        Rows that hold what a declaration means are compared with it by the typed table's own code.
        """
        nodes = (graph.get("nodes") or {}).values()
        sources = [
            node["config"].get("meta", {}).get("source")
            for node in nodes
            if node["resource_type"] == "model"
        ]
        return [source for source in sources if isinstance(source, Mapping)]

    topic_regex = staticmethod(topic_regex)

    def check_cleaning(
        self,
        model: str,
        rules: Settings,
        from_cte: Given,
        columns: Given,
        seeds: Collection[str],
    ) -> None:
        """Look at what macro `cleaned` is given, see there.

        Raises:
            CompilationError: with all problems.
        """
        checked(check_cleaning, model, rules, from_cte, columns, seeds)

    def check_declarations(self, manifest: Foreign = None) -> None:
        """Look at all that models declare and that can be judged by itself: `meta.source`, folds
        and zippers; and whether it is what the project's files hold.

        Args:
            manifest: dbt's; None for the manifest of this run.

        Raises:
            CompilationError: what is wrong with them, of each model all that is.
        """
        manifest = manifest or self._warehouse.manifest()
        outdated = outdated_files(manifest, self._warehouse.config)
        if outdated:
            raise CompilationError("\n".join(outdated))
        models = sorted(
            (node for node in manifest.nodes.values() if node.resource_type == "model"),
            key=lambda node: node.name,
        )
        problems: list[str] = []
        of_project = self._project_problems(manifest)
        for model in models:
            try:
                if model.unique_id in of_project:
                    raise CompilationError("\n".join(of_project[model.unique_id]))
                if model.config.materialized == FOLDED:
                    self._keyed.declared_fold({"name": model.name, "config": model.config})
                problems += overwritten_in_yaml(
                    {"name": model.name, "config": model.config}, yaml_config(model, manifest)
                )
                if is_microbatch(model.config):
                    called = called_macros(model, manifest.macros)
                    names = {manifest.macros[unique_id].name for unique_id in called}
                    problem = microbatch_problem(model.name, model.config, names)
                    if problem:
                        raise CompilationError(problem)
            except (ValueError, CompilationError) as exc:
                place = model.patch_path if "source" in model.config.meta else None
                file = (place or model.original_file_path).rpartition("://")[2]
                problems.append(f"{file}: {getattr(exc, 'msg', str(exc))}")
        problems += filter(None, (unrecorded_reads(model, manifest.macros) for model in models))
        problems += models_read_as_sources(manifest) + odd_source_names(manifest)
        problems += of_project.get("", [])
        if problems:
            raise CompilationError("\n".join(problems))

    def header_statements(self, header: str, model: Node) -> list[str]:
        """The statements of a model's `sql_header`.

        Raises:
            CompilationError: it is no list of statements, or nobody who reads the model's view
                would run them.
        """
        statements, rest = split_statements(header)
        kind = model["config"]["materialized"]
        if kind in ("view", FOLDED):
            raise CompilationError(
                f"{model['name']} has a sql_header and is materialized as {kind}: whoever reads "
                "its view has another session. Materialize it as table or incremental, or write "
                "into its query what the header sets."
            )
        if rest:
            raise CompilationError(
                f"sql_header of {model['name']} must be statements that each end with a "
                f"semicolon, such as `set time zone 'Asia/Shanghai';`, got {rest.strip()!r}."
            )
        return statements

    def check_unique_key(self, model: str, unique_key: Given) -> None:
        """Check what a model of strategy merge goes by, see arguments.py.

        Raises:
            CompilationError: there is none.
        """
        checked(check_unique_key, model, unique_key)

    @staticmethod
    def key_columns(
        model: str, unique_key: str | Sequence[str], columns: Sequence[str]
    ) -> list[str]:
        """The columns of a merge's unique_key as SQL; a name may stand in backticks or not.

        Args:
            columns: that the model's query gives.

        Raises:
            CompilationError: its query gives no such column; of a struct's field, no struct.
        """
        keys = [unique_key] if isinstance(unique_key, str) else unique_key
        given, found = {name.lower() for name in columns}, []
        for key in keys:
            if unquoted(key).lower() in given:
                found.append(quoted(unquoted(key)))
            elif key.split(".")[0].strip("`").lower() in given:
                found.append(key)
            else:
                raise CompilationError(
                    f"{model}: its query gives no column {key}, which its unique_key names; it "
                    f"gives {', '.join(columns)}. Give the column, or name another key and run it "
                    "with --full-refresh."
                )
        return found

    @staticmethod
    def updated_columns(
        model: str, updated: Given, excluded: Given, columns: Sequence[str]
    ) -> list[str]:
        """The columns that a merge updates, as SQL: none where all are excluded, so that rows which
        are there stay as they are.

        Args:
            updated, excluded: the model's merge_update_columns and merge_exclude_columns; names may
                stand in backticks or not.
            columns: that the model's query gives.

        Raises:
            CompilationError: its query gives no such column, or both are given.
        """
        known = {name.lower(): quoted(name) for name in columns}
        if updated and excluded:
            raise CompilationError(
                f"{model} has merge_update_columns and merge_exclude_columns; take one of them."
            )
        config = "merge_update_columns" if updated else "merge_exclude_columns"
        given = updated or excluded or []
        chosen: dict[str, str] = {}
        for name in [given] if isinstance(given, str) else given:
            plain = unquoted(str(name)).lower()
            if plain not in known and not (updated and plain.partition(".")[0] in known):
                raise CompilationError(
                    f"{model}: its query gives no column {name}, which its {config} names; it "
                    f"gives {', '.join(columns)}."
                )
            chosen[plain] = known.get(plain, str(name))
        if updated:
            return list(chosen.values())
        return [name for plain, name in known.items() if plain not in chosen]

    def chain_plan(self, declared: Given) -> Json:
        """The declaration of a log's chain as a plan, see chain_plans.py.

        Raises:
            CompilationError: with all problems.
        """
        return checked(chain_plan, declared)

    def check_arguments(self, macro: str, arguments: Settings) -> None:
        """Check the arguments of a macro, see arguments.py.

        Raises:
            CompilationError: with all problems.
        """
        checked(check_arguments, macro, arguments)

    def check_whole_numbers(self, macro: str, least: int, given: Settings, example: str) -> None:
        """Check the arguments of a macro that are whole numbers, see arguments.py.

        Raises:
            CompilationError: with all problems.
        """
        checked(check_whole_numbers, macro, least, given, example)

    def check_grain(self, macro: str, grain: Given, sizes: Collection[str]) -> None:
        """Check the grain of a window, see arguments.py.

        Raises:
            CompilationError: there is none of that name.
        """
        checked(check_grain, macro, grain, sizes)

    def columns_of_interest(self, table_model: str, counted: Sequence[str]) -> list[str]:
        """The columns_of_interest of a typed model, see arguments.py.

        Args:
            counted: columns that decide the rows and values of the count that reads it.

        Raises:
            CompilationError: there are none, or they lack columns that are counted by.
        """
        declared = self.source_of(table_model).get("columns_of_interest")
        return checked(columns_of_interest, table_model, declared, counted)

    def mixed_times(self) -> list[str]:
        """A sentence for each model that mixes hours of UTC with days of the business zone, in
        its own SQL or in a macro of its project that it calls, see utc_hours;
        `meta: {utc_times: true}` in its config declares that it means to."""
        manifest: Foreign = self._warehouse.manifest()
        nodes, lines = manifest.nodes, []

        @cache
        def calls_in(name: str, sql: str) -> list[str]:
            return [f"{call} in the macro {name}" for call in utc_hours_of_macro(sql)]

        for node in sorted(nodes.values(), key=lambda model: model.name):
            if node.resource_type != "model" or node.config.meta.get("utc_times"):
                continue
            shows_all = node.language == "python" or selects_all_columns(node.raw_code)
            inputs = [nodes[key] for key in node.depends_on.nodes if key in nodes]
            names = (name for model in inputs for name in model.columns)
            has_days = shows_all and any(map(DAY_COLUMN.search, names))
            calls = list(utc_hours(node.raw_code, has_days))
            called = [
                macro
                for key in sorted(called_macros(node, manifest.macros))
                if (macro := manifest.macros[key]).package_name == node.package_name
            ]
            in_macros = [call for macro in called for call in calls_in(macro.name, macro.macro_sql)]
            if in_macros:  # hardly ever: only then are the macros searched for days
                texts = [node.raw_code, *(macro.macro_sql for macro in called)]
                calls += in_macros if has_days or any(map(DAY_COLUMN.search, texts)) else []
            if calls:
                lines.append(
                    f"{node.name}: {', '.join(calls)} goes by UTC, while its days are those of the "
                    "business zone. Give it {{ business_time('create_time') }} in the place of "
                    "create_time, or set meta: {utc_times: true} in its config."
                )
        return lines

    def _project_problems(self, manifest: Foreign) -> dict[str, list[str]]:
        """What the project's own checks say, which the profile names: unique id of a model ->
        its problems; "" -> those of several models together.

        A check is only imported where a model has the name in its `meta` that it is for.
        """
        problems: dict[str, list[str]] = {}
        for name, function in self._warehouse.credentials.declaration_checks.items():
            models = [
                node
                for node in manifest.nodes.values()
                if node.resource_type == "model" and name in node.config.meta
            ]
            if not models:
                continue
            root = self._warehouse.config.project_root
            check = project_function(root, function, "declaration_checks")
            for unique_id, problem in check(models, manifest):
                problems.setdefault(unique_id or "", []).append(problem)
        return problems

    def meta_of(self, table: str) -> Json:
        """Config `meta` of the model of a table (schema.name); {} where no model makes it."""
        manifest: Foreign = self._warehouse.manifest()
        for node in manifest.nodes.values():
            if node.resource_type == "model" and f"{node.schema}.{node.alias}" == table:
                return node.config.meta
        return {}

    def meta_of_readers(self, model: Node) -> dict[str, Json]:
        """Name -> config `meta` of the models that read a model by ref, in the order of names."""
        manifest: Foreign = self._warehouse.manifest()
        readers = [
            node
            for node in manifest.nodes.values()
            if node.resource_type == "model" and model["unique_id"] in node.depends_on.nodes
        ]
        return {node.name: node.config.meta for node in sorted(readers, key=lambda n: n.name)}

    def source_of(self, model_name: str) -> Json:
        """`meta.source` of the project's model of that name, nothing of a model without it. The
        graph of a unit test's context knows no model."""
        manifest: Foreign = self._warehouse.manifest()
        for node in manifest.nodes.values():
            if node.name == model_name and node.resource_type == "model":
                return node.config.meta.get("source", {})
        return {}

    def declared_columns(self, relation: Foreign) -> dict[str, str]:
        """Columns that a model, seed, snapshot or source declares: name in lower case -> data type.

        Args:
            relation: of a table that isn't there yet.

        Raises:
            CompilationError: no node of the project makes it, or not all columns have a data type.
        """
        manifest: Foreign = self._warehouse.manifest()
        nodes = [*manifest.nodes.values(), *manifest.sources.values()]
        types: dict[str, str | None] = {}
        for node in nodes:
            if (node.schema, node.identifier) == (relation.schema, relation.identifier):
                types = {name.lower(): column.data_type for name, column in node.columns.items()}
                types |= getattr(node.config, "column_types", {})
        known = {name: data_type for name, data_type in types.items() if data_type}
        if types and len(known) == len(types):
            return known
        without = ", ".join(sorted(set(types) - set(known)))
        raise CompilationError(
            f"{relation.schema}.{relation.identifier}, an input of the unit test, isn't built yet, "
            + (f"and its columns {without} have no data_type" if types else "and has no columns")
            + " in YAML: build it first, or declare all its columns with their data_type."
        )
