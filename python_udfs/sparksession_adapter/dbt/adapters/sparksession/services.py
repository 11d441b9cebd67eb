"""The adapter's services, each with the others that it asks."""

from __future__ import annotations

from dbt.adapters.sparksession.building import NodeBuilds
from dbt.adapters.sparksession.constraints import HeldConstraints
from dbt.adapters.sparksession.declared.beliefs import BeliefModels
from dbt.adapters.sparksession.declared.checks import Declarations
from dbt.adapters.sparksession.declared.counts import CountModels
from dbt.adapters.sparksession.declared.extracts import ExtractModels
from dbt.adapters.sparksession.declared.join_models import JoinModels
from dbt.adapters.sparksession.declared.key_filters import KeyFilters
from dbt.adapters.sparksession.declared.streams import StreamModels
from dbt.adapters.sparksession.declared.window_models import WindowModels
from dbt.adapters.sparksession.flags import CutRuns
from dbt.adapters.sparksession.inputs import Inputs
from dbt.adapters.sparksession.interrupts import Interrupts
from dbt.adapters.sparksession.keyed.tables import KeyedTables
from dbt.adapters.sparksession.reading.changes import ChangeReads
from dbt.adapters.sparksession.reading.commits import Commits
from dbt.adapters.sparksession.reading.default_reads import DefaultReads
from dbt.adapters.sparksession.reading.definitions import Definitions
from dbt.adapters.sparksession.reading.file_metrics import FileMetrics
from dbt.adapters.sparksession.reading.hook_writes import HookWrites
from dbt.adapters.sparksession.reading.microbatch import Microbatches
from dbt.adapters.sparksession.reading.named_reads import NamedReads
from dbt.adapters.sparksession.reading.partition_reads import PartitionReads
from dbt.adapters.sparksession.reading.ranges import ColumnRanges
from dbt.adapters.sparksession.reading.standing_views import StandingViews
from dbt.adapters.sparksession.reading.table_reads import TableReads
from dbt.adapters.sparksession.reading.taken_back import TakenBack
from dbt.adapters.sparksession.reading.touched_rows import TouchedRows
from dbt.adapters.sparksession.seeds import Seeds
from dbt.adapters.sparksession.table_properties import TableProperties
from dbt.adapters.sparksession.versions.candidate import Candidates
from dbt.adapters.sparksession.versions.compaction import Compaction
from dbt.adapters.sparksession.versions.comparison import Comparison
from dbt.adapters.sparksession.versions.copies import Copies
from dbt.adapters.sparksession.versions.data_tests import DataTests
from dbt.adapters.sparksession.versions.diff import Differences
from dbt.adapters.sparksession.versions.held_lease import HeldLease
from dbt.adapters.sparksession.versions.maintenance import Maintenance
from dbt.adapters.sparksession.versions.makers import Makers
from dbt.adapters.sparksession.versions.one_writer import OneWriter
from dbt.adapters.sparksession.versions.orphans import Orphans
from dbt.adapters.sparksession.versions.place import Place
from dbt.adapters.sparksession.versions.publications import Publications
from dbt.adapters.sparksession.versions.published import Versions
from dbt.adapters.sparksession.versions.queries import VersionQueries
from dbt.adapters.sparksession.versions.recovery import Recovery
from dbt.adapters.sparksession.versions.retention import Retention
from dbt.adapters.sparksession.versions.rollback import Rollback
from dbt.adapters.sparksession.versions.store import VersionStore
from dbt.adapters.sparksession.warehouse import Relations, Warehouse
from dbt.adapters.sparksession.worker_files import WorkerFiles


class Services:
    """All services of one command. Each is made of those above it: none of them goes round."""

    def __init__(self, relations: Relations) -> None:
        warehouse = self.warehouse = Warehouse(relations, Inputs())
        self.store = store = VersionStore(warehouse)

        self.keyed = keyed = KeyedTables(warehouse)
        self.ranges = ranges = ColumnRanges(warehouse)
        self.batches = batches = Microbatches(warehouse)
        self.definitions = definitions = Definitions(warehouse)
        self.commits = commits = Commits(warehouse, batches, store)
        self.reading = reads = TableReads(warehouse, keyed, definitions)
        self.file_metrics = FileMetrics(warehouse)
        self.default_reads = DefaultReads(warehouse, reads)
        self.hook_writes = HookWrites(warehouse)
        self.named_reads = named_reads = NamedReads(warehouse)
        self.standing_views = StandingViews(warehouse)
        self.taken_back = taken_back = TakenBack(warehouse)
        self.changes = changes = ChangeReads(warehouse, keyed, ranges, reads, taken_back)
        self.partitions = PartitionReads(
            warehouse, definitions, changes, reads, commits, named_reads=named_reads
        )

        self.joins = JoinModels(warehouse, keyed)
        self.windows = WindowModels(warehouse, changes, ranges)
        self.streams = StreamModels(warehouse)
        self.beliefs = BeliefModels(warehouse, keyed, definitions)
        self.extracts = ExtractModels(warehouse)
        self.key_filters = KeyFilters(warehouse, keyed)
        self.counts = CountModels(warehouse)
        self.declarations = Declarations(warehouse, keyed)
        self.seeds = Seeds(warehouse, reads)
        self.table_properties = TableProperties(warehouse)
        self.cut_runs = CutRuns(warehouse)
        self.held_constraints = HeldConstraints(warehouse)

        self.lease = lease = HeldLease(warehouse)
        self.place = place = Place(warehouse, lease)
        self.worker_files = WorkerFiles(warehouse, lease)
        orphans = Orphans(warehouse, lease, place)
        self.writer = writer = OneWriter(warehouse, store, lease, place, orphans)
        queries = VersionQueries(warehouse, reads, store)
        self.differences = differences = Differences(warehouse, store)
        comparison = Comparison(warehouse, differences)
        touched = TouchedRows(warehouse, keyed, ranges, self.changes)
        self.data_tests = tests = DataTests(warehouse, store, lease, queries, touched)
        self.versions = versions = Versions(
            warehouse, batches, store, lease, queries, comparison, tests=tests
        )
        writer.write_views = versions.views.write_all
        self.rollback = rollback = Rollback(
            warehouse, keyed, reads, store, lease=lease, writer=writer, versions=versions
        )
        self.candidates = Candidates(warehouse, store, writer, place, versions, rollback)
        self.retention = Retention(warehouse, store, writer, place, rollback)
        self.compaction = Compaction(
            warehouse,
            keyed,
            store,
            writer=writer,
            place=place,
            versions=versions,
            rollback=rollback,
        )
        self.maintenance = Maintenance(warehouse, store, writer, place, orphans)
        self.copies = copies = Copies(warehouse, lease, writer, place)
        self.recovery = Recovery(
            warehouse, store, lease, writer=writer, place=place, versions=versions, copies=copies
        )
        self.publications = Publications(
            warehouse, keyed, changes, store=store, lease=lease, writer=writer, place=place
        )

        self.interrupts = interrupts = Interrupts(warehouse, store, writer, orphans)
        self.building = NodeBuilds(
            warehouse,
            keyed,
            named_reads,
            batches=batches,
            reads=reads,
            lease=lease,
            place=place,
            makers=Makers(warehouse, store),
            interrupts=interrupts,
        )
