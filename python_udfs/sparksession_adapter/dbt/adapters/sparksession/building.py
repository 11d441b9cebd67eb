"""What is done around each node that dbt builds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sparksession.evaluation import (
    are_few,
    choose_evaluation,
    compile_again,
    leave_uncompiled,
)
from dbt.adapters.sparksession.flags import check_takes_all
from dbt.adapters.sparksession.iceberg.history import MODEL_PROPERTY, TABLE_PROPERTY
from dbt.adapters.sparksession.inputs import PROPERTY_SETTING
from dbt.adapters.sparksession.interrupts import Interrupts, check_may_begin
from dbt.adapters.sparksession.keyed.tables import RUNS_SUFFIX, KeyedTables, stored_table
from dbt.adapters.sparksession.progress import Progress
from dbt.adapters.sparksession.reading.microbatch import Microbatches, is_microbatch
from dbt.adapters.sparksession.reading.named_reads import NamedReads
from dbt.adapters.sparksession.reading.table_reads import WITHOUT_TABLE, TableReads
from dbt.adapters.sparksession.session import message_of, own_session, unpersist
from dbt.adapters.sparksession.session_values import forget_values
from dbt.adapters.sparksession.sql_texts import split_statements
from dbt.adapters.sparksession.table_properties import unheeded_configs
from dbt.adapters.sparksession.versions.held_lease import HeldLease
from dbt.adapters.sparksession.versions.makers import Makers
from dbt.adapters.sparksession.versions.nodes import PUBLISHED_KINDS
from dbt.adapters.sparksession.versions.own_tables import OWN_TABLES
from dbt.adapters.sparksession.versions.place import Place
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import DbtRuntimeError
from dbt_common.invocation import get_invocation_id
from py4j.protocol import Py4JNetworkError

logger = AdapterLogger("Spark")

# materializations that record the node's inputs by themselves, behind the hooks before it
RECORDING = ("table", "incremental", "folded", "snapshot")

NAME = re.compile(r"\w+", re.ASCII)  # of a relation or schema


class NodeBuilds:
    """Begins and ends the builds of nodes."""

    def __init__(
        self,
        warehouse: Warehouse,
        keyed: KeyedTables,
        named_reads: NamedReads,
        *,
        batches: Microbatches,
        reads: TableReads,
        lease: HeldLease,
        place: Place,
        makers: Makers,
        interrupts: Interrupts,
    ) -> None:
        self._warehouse = warehouse
        self._keyed = keyed
        self._named_reads = named_reads
        self._batches = batches
        self._reads = reads
        self._lease = lease
        self._place = place
        self._makers = makers
        self._interrupts = interrupts

    def begin(self, node_config: Any) -> Any:
        """Before a node's materialization: its commits say run and code.

        Returns:
            What `end` takes, or None if nothing is done for the node.

        Raises:
            DbtRuntimeError: the node can't be built.
        """
        try:
            return self._begin(node_config)
        except DbtRuntimeError as exc:
            if is_microbatch(node_config):  # dbt prints nothing of what stops a batch here
                logger.error(f"{node_config.model.name}: {exc.msg}")
            raise

    def _begin(self, node_config: Any) -> Any:
        node = node_config.model
        unique_id = getattr(node, "unique_id", None)
        if unique_id is None or self._warehouse.credentials.offline:
            return None
        check_may_begin()
        check_takes_all([node])
        self._lease.check()
        own = own_session(self._warehouse.credentials)
        if node.resource_type == "test":  # it writes nothing and leaves nothing behind
            if self.tests_few_rows(node):
                leave_uncompiled(own.session)
            return None, Progress(own.session, node.name), unique_id
        if node.resource_type in PUBLISHED_KINDS:
            _check_names(node, self._warehouse.credentials.schema)
            _check_layout(node, self._warehouse.credentials.catalog)
            _check_single_query(node, node_config.get("materialized"))
            self._makers.check(node, node_config.get("materialized"))
        self._take_reads_of_ephemeral(node)
        self._named_reads.check_named_reads(node)
        self._batches.note_retried_batches(node)
        table = stored_table(node.schema, node.alias, node_config.get("materialized"))
        if node_config.get("materialized") != "view":
            self._place.prepare_write(table)
        own.reset(but=self._warehouse.inputs.building(unique_id).kept)
        conf = own.session.conf
        checksum = getattr(getattr(node, "checksum", None), "checksum", "")
        version = getattr(self._warehouse.config, "version", None) or "0"
        properties = {
            "dbt.run": get_invocation_id(),
            MODEL_PROPERTY: unique_id,
            TABLE_PROPERTY: table,
            "dbt.code": f"{version}+{checksum[:12]}",
        }
        plan = self._warehouse.inputs.plan(unique_id)
        if node.resource_type == "unit_test":  # it reads the rows that its YAML states
            leave_uncompiled(own.session)
        elif plan.reads:
            choose_evaluation(own.session, plan)
        if node_config.get("materialized") not in RECORDING:
            properties |= plan.commit_properties
        for key, value in properties.items():
            conf.set(PROPERTY_SETTING + key, value)
        # where other tables are read too, it would put each of their partitions into one task
        if plan.reads and all(table.endswith(RUNS_SUFFIX) for table in plan.reads):
            self._keyed.group_reads()
        self._interrupts.begin_building(unique_id, table)
        return table, Progress(own.session, node.name), unique_id

    def end(self, context: Any) -> None:
        """After it.

        Args:
            context: what `begin` gave.

        Raises:
            DbtRuntimeError: Spark's Java has ended.
        """
        if context is None:
            return
        try:
            self._end(*context)
        except (ConnectionError, Py4JNetworkError) as exc:
            raise DbtRuntimeError(message_of(exc)) from exc

    def _end(self, table: str | None, progress: Progress, unique_id: str) -> None:
        progress.stop()
        if table is None:
            compile_again(own_session(self._warehouse.credentials).session)
            return
        self._interrupts.end_building(unique_id)
        self._warehouse.inputs.built(table)
        building = self._warehouse.inputs.building(unique_id)
        for rows in building.kept.values():
            unpersist(rows)
        building.kept.clear()
        building.context = None
        own = own_session(self._warehouse.credentials)
        own.reset()
        forget_values(own.session)

    def tests_few_rows(self, test: Any) -> bool:
        """Whether the tables that a data test reads, through views too, have few rows together."""
        manifest, rows = self._warehouse.manifest(), 0
        waiting, seen = [test], set()
        while waiting:
            for unique_id in waiting.pop().depends_on_nodes:
                if unique_id in seen:
                    continue
                seen.add(unique_id)
                parent = manifest.nodes.get(unique_id)
                if parent is None:  # a source: how many rows it has isn't looked up for this
                    return False
                if parent.config.get("materialized") in WITHOUT_TABLE:
                    waiting.append(parent)
                    continue
                table = stored_table(parent.schema, parent.alias, parent.config.get("materialized"))
                count = self._warehouse.input_history(table).rows
                if count is None:
                    return False
                rows += count
        return are_few(rows)

    def _take_reads_of_ephemeral(self, node: Any) -> None:
        """Let the node's commit record what the ephemeral models in its SQL read."""
        nodes = self._warehouse.manifest().nodes
        waiting, seen = [node], set()
        while waiting:
            for unique_id in waiting.pop().depends_on_nodes:
                parent = nodes.get(unique_id)
                if unique_id in seen or parent is None:
                    continue
                if parent.config.get("materialized") == "ephemeral":
                    seen.add(unique_id)
                    waiting.append(parent)
        model = {"unique_id": node.unique_id, "schema": node.schema, "alias": node.alias}
        model["config"] = {"materialized": node.config.get("materialized")}
        for unique_id in seen:
            for table in self._warehouse.inputs.plan(unique_id).reads:
                if table not in self._warehouse.inputs.plan(node.unique_id).reads:
                    self._reads.read_table(model, self._warehouse.relation_of(table), "all")


def _check_layout(node: Any, catalog: str) -> None:
    """Warn of configs that nothing goes by.

    Args:
        catalog: that all tables lie in.

    Raises:
        DbtRuntimeError: its tblproperties are no mapping.
    """
    properties = node.config.get("tblproperties")
    if properties and not isinstance(properties, Mapping):
        raise DbtRuntimeError(
            f"tblproperties of {node.name} must be a mapping of names to values, such as "
            f"{{'write.parquet.compression-codec': 'gzip'}}, got {properties!r}."
        )
    names = unheeded_configs(node.config, catalog)
    if names:
        logger.warning(
            f"{node.name}: its config has {', '.join(names)}, which nothing goes by: each table is "
            "one of Iceberg's in the warehouse's own folder; take that out of the config, and set "
            "schema, partition_by, sort_by and tblproperties instead."
        )


def _check_single_query(node: Any, kind: str) -> None:
    """Refuse a view whose query ends with a semicolon: Spark makes it, and nobody could read it.

    Raises:
        DbtRuntimeError: it does.
    """
    if kind == "view" and node.language == "sql" and split_statements(node.compiled_code or "")[0]:
        raise DbtRuntimeError(
            f"{node.name}: its SQL has a semicolon, and the query of a view stands within those of "
            "its readers: take the semicolon out."
        )


def _check_names(node: Any, schema: str) -> None:
    """Refuse names that Spark takes in backticks alone, as its own message names no remedy, and
    those of the tables that the adapter keeps for itself.

    Args:
        schema: that the adapter's own tables lie in.

    Raises:
        DbtRuntimeError: the name of the node's relation or schema is one.
    """
    if node.schema.lower() == schema.lower() and node.alias.lower() in OWN_TABLES:
        raise DbtRuntimeError(
            f"{node.name} would be built as {node.schema}.{node.alias}, in the place of a table "
            "that the adapter keeps for itself: rename it, or set its alias or schema."
        )
    for what, name in (("relation", node.alias), ("schema", node.schema)):
        # dbt names a seed by its file, and its own suite has one with points
        shown = name.replace(".", "") if node.resource_type == "seed" else name
        if not NAME.fullmatch(shown):
            raise DbtRuntimeError(
                f"The {what} of {node.name} would have the name {name!r}, but a name here may have "
                "the letters a to z and A to Z, digits and underscores alone: rename it, or set "
                f"its {'alias' if what == 'relation' else 'schema'}."
            )
