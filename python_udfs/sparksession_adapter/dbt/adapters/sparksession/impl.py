"""The adapter: what dbt itself asks of it, and the services that macros and Python models ask."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from dbt.adapters.base import BaseRelation, PythonJobHelper
from dbt.adapters.base.meta import available, available_property
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.spark import SparkAdapter, SparkColumn
from dbt.adapters.sparksession.catalog import Catalog
from dbt.adapters.sparksession.column import SparkSessionColumn
from dbt.adapters.sparksession.connections import SparkSessionConnectionManager
from dbt.adapters.sparksession.constraints import SUPPORT, HeldConstraints, guards_of
from dbt.adapters.sparksession.declared.beliefs import BeliefModels
from dbt.adapters.sparksession.declared.checks import Declarations
from dbt.adapters.sparksession.declared.counts import CountModels
from dbt.adapters.sparksession.declared.extracts import ExtractModels
from dbt.adapters.sparksession.declared.join_models import JoinModels
from dbt.adapters.sparksession.declared.key_filters import KeyFilters
from dbt.adapters.sparksession.declared.streams import StreamModels
from dbt.adapters.sparksession.declared.window_models import WindowModels
from dbt.adapters.sparksession.flags import CutRuns
from dbt.adapters.sparksession.iceberg.transforms import Transform, partition_text
from dbt.adapters.sparksession.java_process import java_ended
from dbt.adapters.sparksession.keyed.tables import KeyedTables
from dbt.adapters.sparksession.python_models import SessionJobHelper, result_view
from dbt.adapters.sparksession.reading.changes import ChangeReads
from dbt.adapters.sparksession.reading.commits import Commits
from dbt.adapters.sparksession.reading.default_reads import DefaultReads
from dbt.adapters.sparksession.reading.definitions import Definitions
from dbt.adapters.sparksession.reading.file_metrics import FileMetrics
from dbt.adapters.sparksession.reading.hook_writes import HookWrites
from dbt.adapters.sparksession.reading.late_macros import LateMacros
from dbt.adapters.sparksession.reading.microbatch import Microbatches
from dbt.adapters.sparksession.reading.named_reads import NamedReads
from dbt.adapters.sparksession.reading.partition_reads import PartitionReads
from dbt.adapters.sparksession.reading.ranges import ColumnRanges
from dbt.adapters.sparksession.reading.standing_views import StandingViews
from dbt.adapters.sparksession.reading.table_reads import TableReads
from dbt.adapters.sparksession.reading.taken_back import TakenBack
from dbt.adapters.sparksession.relation import SparkSessionRelation
from dbt.adapters.sparksession.seeds import Seeds
from dbt.adapters.sparksession.services import Services
from dbt.adapters.sparksession.sql import NO_SCHEMA, is_absent, quoted
from dbt.adapters.sparksession.sql_texts import split_statements
from dbt.adapters.sparksession.table_properties import TableProperties
from dbt.adapters.sparksession.versions.candidate import Candidates
from dbt.adapters.sparksession.versions.compaction import Compaction
from dbt.adapters.sparksession.versions.copies import Copies
from dbt.adapters.sparksession.versions.data_tests import DataTests
from dbt.adapters.sparksession.versions.diff import Differences
from dbt.adapters.sparksession.versions.maintenance import Maintenance
from dbt.adapters.sparksession.versions.one_writer import OneWriter
from dbt.adapters.sparksession.versions.own_tables import check_own_tables
from dbt.adapters.sparksession.versions.publications import Publications
from dbt.adapters.sparksession.versions.published import Versions
from dbt.adapters.sparksession.versions.recovery import Recovery
from dbt.adapters.sparksession.versions.retention import Retention
from dbt.adapters.sparksession.versions.rollback import Rollback
from dbt.adapters.sparksession.worker_files import WorkerFiles
from dbt.flags import get_flags
from dbt_common.contracts.metadata import CatalogTable
from dbt_common.exceptions import CompilationError, DbtRuntimeError


class SparkSessionAdapter(SparkAdapter):
    """dbt-spark's adapter on one in-process session.

    Attributes:
        services: what the adapter is made of; a macro states `adapter.<service>.<method>(..)` of
            those that stand here as properties.
    """

    CONSTRAINT_SUPPORT = SUPPORT
    Relation = SparkSessionRelation
    Column = SparkSessionColumn
    ConnectionManager = SparkSessionConnectionManager

    def __init__(self, config: Any, mp_context: Any) -> None:
        # plain attribute, not a profile key: relative paths count from the project. `dbt debug`
        # gives the profile alone
        root = getattr(config, "project_root", None) or get_flags().PROJECT_DIR
        config.credentials.project_root = str(root)
        threads = getattr(config, "threads", 1)
        if threads < 1:
            raise DbtRuntimeError(
                f"threads must be a whole number from 1, got {threads}: set DBT_THREADS, or "
                "--threads, to how many models are built at once."
            )
        super().__init__(config, mp_context)
        self.services = Services(self)
        self.Relation.text_as_of = self.services.store.text_as_of

    # ---- services ------------------------------------------------------------------------

    @available_property
    def keyed(self) -> KeyedTables:
        """Folded models and zippers."""
        return self.services.keyed

    @available_property
    def reading(self) -> TableReads:
        """Reads of pinned tables and views, and of their new rows."""
        return self.services.reading

    @available_property
    def default_reads(self) -> DefaultReads:
        """What a bare ref or source reads."""
        return self.services.default_reads

    @available_property
    def file_metrics(self) -> FileMetrics:
        """Data tests that the metrics of files answer."""
        return self.services.file_metrics

    @available_property
    def named_reads(self) -> NamedReads:
        """Relations that a model names by hand."""
        return self.services.named_reads

    @available_property
    def hook_writes(self) -> HookWrites:
        """What hooks before a model write to."""
        return self.services.hook_writes

    @available_property
    def standing_views(self) -> StandingViews:
        """Views that needn't be made again."""
        return self.services.standing_views

    @available_property
    def changes(self) -> ChangeReads:
        """Changes between two versions of a table."""
        return self.services.changes

    @available_property
    def taken_back(self) -> TakenBack:
        """Whether what was taken back of a table's changes goes from a model, too."""
        return self.services.taken_back

    @available_property
    def partitions(self) -> PartitionReads:
        """Reads by changed partitions and closed periods."""
        return self.services.partitions

    @available_property
    def ranges(self) -> ColumnRanges:
        """Rows that are kept, and ranges that leave files out."""
        return self.services.ranges

    @available_property
    def commits(self) -> Commits:
        """What the commits of tables say."""
        return self.services.commits

    @available_property
    def definitions(self) -> Definitions:
        """What stored rows depend on beside their inputs."""
        return self.services.definitions

    @available_property
    def batches(self) -> Microbatches:
        """Batches of microbatch models."""
        return self.services.batches

    @available_property
    def joins(self) -> JoinModels:
        """What the join macros ask."""
        return self.services.joins

    @available_property
    def windows(self) -> WindowModels:
        """What the window macros ask."""
        return self.services.windows

    @available_property
    def streams(self) -> StreamModels:
        """What the stream macros ask."""
        return self.services.streams

    @available_property
    def beliefs(self) -> BeliefModels:
        """What the macros of beliefs ask."""
        return self.services.beliefs

    @available_property
    def extracts(self) -> ExtractModels:
        """What the macro of full extracts asks."""
        return self.services.extracts

    @available_property
    def key_filters(self) -> KeyFilters:
        """Bloom filters of the keys that tables hold."""
        return self.services.key_filters

    @available_property
    def counts(self) -> CountModels:
        """What the rows of a model count."""
        return self.services.counts

    @available_property
    def declarations(self) -> Declarations:
        """What models declare."""
        return self.services.declarations

    @available_property
    def seeds(self) -> Seeds:
        """Seeds and snapshots."""
        return self.services.seeds

    @available_property
    def table_properties(self) -> TableProperties:
        """Properties of tables that stand."""
        return self.services.table_properties

    @available_property
    def cut_runs(self) -> CutRuns:
        """Flags that cut the inputs of a run."""
        return self.services.cut_runs

    @available_property
    def held_constraints(self) -> HeldConstraints:
        """Constraints of models by which the rows that they hold were looked at."""
        return self.services.held_constraints

    @available_property
    def worker_files(self) -> WorkerFiles:
        """Files that workers of Python models write."""
        return self.services.worker_files

    @available_property
    def writer(self) -> OneWriter:
        """The lease of the warehouse."""
        return self.services.writer

    @available_property
    def data_tests(self) -> DataTests:
        """What versions prove of data tests."""
        return self.services.data_tests

    @available_property
    def versions(self) -> Versions:
        """What a run publishes."""
        return self.services.versions

    @available_property
    def publications(self) -> Publications:
        """Stores outside that hold versions."""
        return self.services.publications

    @available_property
    def maintenance(self) -> Maintenance:
        """The list of versions, and orphans."""
        return self.services.maintenance

    @available_property
    def differences(self) -> Differences:
        """Where a version differs from another."""
        return self.services.differences

    @available_property
    def candidates(self) -> Candidates:
        """The build that is held back."""
        return self.services.candidates

    @available_property
    def rollback(self) -> Rollback:
        """The way back to a version."""
        return self.services.rollback

    @available_property
    def retention(self) -> Retention:
        """Which versions are kept."""
        return self.services.retention

    @available_property
    def compaction(self) -> Compaction:
        """Few files of many."""
        return self.services.compaction

    @available_property
    def copies(self) -> Copies:
        """Copies of the warehouse."""
        return self.services.copies

    @available_property
    def recovery(self) -> Recovery:
        """Tables that the catalog has lost."""
        return self.services.recovery

    @available
    def is_offline(self) -> bool:
        return self.config.credentials.offline

    @available
    def java_ended(self) -> str | None:
        """Why Spark's Java has ended, as a sentence; None while it runs."""
        return java_ended()

    @available
    def partition_texts(self, partition_by: str | list[str]) -> list[str]:
        """What stands in `partitioned by`, from a model's `partition_by`."""
        given = [partition_by] if isinstance(partition_by, str) else partition_by
        return list(map(partition_text, given))

    @available
    def partition_values(self, partition_by: str | list[str]) -> list[str]:
        """SQL expressions of a row's partition, from a model's `partition_by`."""
        return [transform.value for transform in _transforms(partition_by)]

    @available
    def partition_columns(self, partition_by: str | list[str]) -> list[str]:
        """Columns that a model's `partition_by` names, in lower case."""
        return [transform.column.lower() for transform in _transforms(partition_by)]

    @available
    def column_comments(self, relation: BaseRelation) -> dict[str, str]:
        """Column -> comment, of the columns that have one."""
        return self.services.warehouse.comments(relation).columns

    @available
    def split_statements(self, text: str) -> tuple[list[str], str]:
        """Complete statements of a text, and what is left behind the last of them."""
        return split_statements(text)

    @available
    def constraint_guards(self, model: Mapping[str, Any]) -> dict[str, list[dict[str, str]]]:
        """Column -> what its rows are looked at for, by the constraints of the contract."""
        return guards_of(model)

    @available
    def result_view(self, model: Mapping[str, Any]) -> str:
        return result_view(model["alias"])

    def execute(
        self, sql: str, auto_begin: bool = False, fetch: bool = False, limit: int | None = None
    ) -> Any:
        """As dbt's; not in a run that has slept since its node began, and lost its lease by that.

        Raises:
            LeaseRefusedError: another run has taken the lease over.
            DbtRuntimeError: it writes to a table that the adapter keeps for itself.
        """
        check_own_tables(sql, self.config.credentials.schema)
        return self._execute(sql, auto_begin, fetch, limit)

    def _execute(
        self, sql: str, auto_begin: bool = False, fetch: bool = False, limit: int | None = None
    ) -> Any:
        self.services.lease.check_statement()
        return super().execute(sql, auto_begin, fetch, limit)

    # ---- nodes ---------------------------------------------------------------------------

    @property
    def default_python_submission_method(self) -> str:
        return "session"

    @property
    def python_submission_helpers(self) -> dict[str, type[PythonJobHelper]]:
        helper: Any = functools.partial(SessionJobHelper, services=self.services)
        return {"session": helper}

    def pre_model_hook(self, config: Any) -> Any:
        return self.services.building.begin(config)

    def post_model_hook(self, config: Any, context: Any) -> None:
        # of a test dbt gives its whole context here, not the config
        self.services.building.end(context)

    def cancel_open_connections(self) -> list[str]:
        return self.services.interrupts.cancel(super().cancel_open_connections)

    def cleanup_connections(self) -> None:
        self.services.interrupts.clean_up(super().cleanup_connections, self.connection_named)

    # ---- listing and docs ----------------------------------------------------------------

    def list_relations_without_caching(self, schema_relation: Any) -> list[Any]:
        """Tables and views of a schema: Spark lists them by two statements."""
        if self.config.credentials.offline:
            return []
        schema, found = schema_relation.schema, []
        for kind, sql in (
            (RelationType.Table, "show tables"),
            (RelationType.View, "show views"),
        ):
            try:
                _, rows = self.execute(f"{sql} in {schema}", fetch=True)
            except DbtRuntimeError as exc:
                if any(word in exc.msg for word in NO_SCHEMA):
                    return []
                raise
            for row in rows:
                if not row[2]:  # a temporary view
                    found.append(self.Relation.create(schema=schema, identifier=row[1], type=kind))
        views = {relation.identifier for relation in found if relation.type == "view"}
        return [
            relation
            for relation in found
            if relation.type == "view" or relation.identifier not in views
        ]

    def _make_match(
        self, relations_list: list[BaseRelation], database: str, schema: str, identifier: str
    ) -> list[BaseRelation]:
        """Relations of a name: those that have it exactly, if any.

        Iceberg's catalogs keep upper case; dbt looks for the lower and refuses what differs.
        """
        exact = [
            relation
            for relation in relations_list
            if (relation.schema, relation.identifier) == (schema, identifier)
        ]
        return exact or super()._make_match(relations_list, database, schema, identifier)

    def drop_schema(self, relation: BaseRelation) -> None:
        """Drop a schema with its tables, their files and its views.

        Iceberg's catalogs drop empty namespaces alone, whatever `cascade` is. The
        adapter's own tables go with the others.
        """
        held = self.list_relations_without_caching(relation)
        for held_relation in sorted(held, key=lambda relation: relation.type != "view"):
            files = " purge" if held_relation.type == "table" else ""
            try:
                self._execute(f"drop {held_relation.type} if exists {held_relation}{files}")
            except DbtRuntimeError as exc:
                # a catalog that collects garbage by itself, such as Nessie's
                if "GC is disabled" not in exc.msg:
                    raise
                self._execute(f"drop table if exists {held_relation}")
            else:
                self.services.place.delete_folder(held_relation)
        super().drop_schema(relation)

    @available
    @classmethod
    def quote(cls, identifier: str) -> str:
        """A name as SQL. dbt asks the class itself where a contract has columns in quotes."""
        return quoted(str(identifier))  # of a relation without a database None, too

    def set_macro_resolver(self, macro_resolver: Any) -> None:
        """Take dbt's manifest, once the project is parsed."""
        LateMacros(macro_resolver, self.config).note()
        super().set_macro_resolver(macro_resolver)

    def set_relations_cache(self, *args: Any, **kwargs: Any) -> None:
        if not self.config.credentials.offline:
            super().set_relations_cache(*args, **kwargs)

    def get_columns_in_relation(self, relation: Any) -> list[SparkColumn]:
        """Columns of a table, a view or a temporary view; none where there is no such thing."""
        name = getattr(relation, "name_only", relation)
        try:
            _, rows = self.execute(f"describe table {name}", fetch=True)
        except DbtRuntimeError as exc:
            if is_absent(exc):
                return []
            raise
        return SparkSessionColumn.described(relation, rows)

    def get_catalog_for_single_relation(self, relation: BaseRelation) -> CatalogTable | None:
        return Catalog(self.services.warehouse).table(relation)

    def _get_one_catalog(
        self, information_schema: Any, schemas: set[str], used_schemas: Any
    ) -> Any:
        from dbt_common.clients.agate_helper import table_from_data_flat

        database = information_schema.database
        relations = [r for schema in sorted(schemas) for r in self.list_relations(database, schema)]
        rows = Catalog(self.services.warehouse).rows(relations)
        # agate itself would read a column of the number 1 as booleans
        return table_from_data_flat(rows, list(rows[0]) if rows else [])


def _transforms(partition_by: str | list[str]) -> list[Transform]:
    try:
        return Transform.read_all(partition_by)
    except ValueError as exc:
        raise CompilationError(f"partition_by {exc}") from exc
