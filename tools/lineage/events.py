"""The runs and the column lineage as OpenLineage events, https://openlineage.io/docs/spec/.

A commit of a table is a run of its own, a child of dbt's, with the snapshots that it read and
wrote. A view is a job without a run, for nothing is written when it is read.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from dbt.adapters.sparksession.secrets import environment
from openlineage.client.event_v2 import (
    InputDataset,
    Job,
    JobEvent,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
    set_producer,
)
from openlineage.client.facet_v2 import (
    DatasetFacet,
    column_lineage_dataset,
    dataset_version_dataset,
    output_statistics_output_dataset,
    parent_run,
    schema_dataset,
)
from openlineage.client.serde import Serde
from openlineage.client.transport.http import HttpConfig, HttpTransport

from tools.lineage.warehouse import Lineage, TracedTable

FILE = "openlineage.jsonl"
LOG = "change_log"  # namespace of the source tables, of which the log alone is read
DIRECT = [column_lineage_dataset.Transformation(type="DIRECT")]
RUN_OF_KEYED = "__runs"  # ends the name of the table that a keyed table is stored in


def lineage_events(
    lineage: Lineage, commits: Sequence[Mapping[str, Any]], place: str, now: datetime
) -> list[RunEvent | JobEvent]:
    """Events of commits, oldest first, and of the views.

    Args:
        commits: as commits.py gives them, oldest first.
        place: the warehouse as a URI, which is the namespace of its tables and jobs.
        now: the time of the views' events.
    """
    set_producer("https://openlineage.io/producers/binlog_warehouse")
    datasets = _Datasets(lineage, place)
    events: list[RunEvent | JobEvent] = []
    for commit in commits:
        events += _run_of(datasets, commit)
    written = {_plain(commit["table_name"]) for commit in commits}
    for table in lineage.tables.values():
        is_view = lineage.manifest["nodes"].get(table.unique_id, {}).get("config", {})
        if table.kind != "model" or is_view.get("materialized") != "view":
            continue
        if table.relation not in written:
            events.append(
                JobEvent(
                    eventTime=now.isoformat(),
                    job=Job(place, table.unique_id),
                    inputs=[datasets.read(name) for name in datasets.reads(table)],
                    outputs=[datasets.written(table)],
                )
            )
    return events


class _Datasets:
    """Tables of the lineage as datasets."""

    def __init__(self, lineage: Lineage, place: str) -> None:
        self.lineage, self.place = lineage, place
        self.by_relation = {table.relation: table for table in lineage.tables.values()}

    def name(self, table: str) -> tuple[str, str]:
        """(namespace, name) of a table of the lineage."""
        found = self.lineage.tables[table]
        return (self.place, found.relation) if found.relation else (LOG, found.name)

    def reads(self, table: TracedTable) -> list[str]:
        """Names of the tables whose columns a table's columns are made of."""
        names = {read.table for column in table.columns.values() for read in column.inputs}
        return sorted(names)

    def read(self, table: str) -> InputDataset:
        return InputDataset(*self.name(table))

    def read_at(self, relation: str, snapshot: int | None) -> InputDataset:
        facets: dict[str, DatasetFacet] = {}
        if snapshot is not None:
            facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(snapshot))
        return InputDataset(self.place, relation, facets=facets)

    def written(
        self, table: TracedTable, snapshot: int | None = None, rows: int | None = None
    ) -> OutputDataset:
        facets: dict[str, DatasetFacet] = {
            "schema": schema_dataset.SchemaDatasetFacet(
                [schema_dataset.SchemaDatasetFacetFields(name) for name in table.columns]
            ),
            "columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(
                {name: self._fields(table, name) for name in table.columns}
            ),
        }
        if snapshot is not None:
            facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(snapshot))
        counted = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rows)
        return OutputDataset(
            self.place,
            table.relation,
            facets=facets,
            outputFacets={} if rows is None else {"outputStatistics": counted},
        )

    def _fields(self, table: TracedTable, name: str) -> column_lineage_dataset.Fields:
        """What a column is made of; with no column in it the reason."""
        column = table.columns[name]
        read = dict.fromkeys((source.table, source.column) for source in column.inputs)
        return column_lineage_dataset.Fields(
            [
                column_lineage_dataset.InputField(*self.name(source), field, DIRECT)
                for source, field in read
            ],
            transformationDescription=", ".join(sorted(column.reasons)) or None,
        )


def _run_of(datasets: _Datasets, commit: Mapping[str, Any]) -> list[RunEvent]:
    """The start and the end of a commit: both at its time, for no table has that of its start."""
    relation = _plain(commit["table_name"])
    table = datasets.by_relation.get(relation)
    model = commit["model_id"] or relation
    run = commit["run_id"]
    name = f"{run}/{commit['table_name']}/{commit['snapshot_id']}"
    parent = parent_run.ParentRunFacet(
        parent_run.Run(run), parent_run.Job(datasets.place, "dbt build")
    )
    inputs = [
        datasets.read_at(_plain(read["input_table"]), read["input_snapshot_id"])
        for read in commit["inputs"]
    ]
    written = (
        datasets.written(table, commit["snapshot_id"], commit["rows_added"])
        if table
        else OutputDataset(datasets.place, relation)
    )
    return [
        RunEvent(
            eventTime=commit["committed_at"].isoformat(),
            eventType=state,
            run=Run(str(uuid.uuid5(uuid.NAMESPACE_URL, name)), facets={"parent": parent}),
            job=Job(datasets.place, model),
            inputs=inputs,
            outputs=[written],
        )
        for state in (RunState.START, RunState.COMPLETE)
    ]


def _plain(relation: str) -> str:
    """A keyed table by the name that its readers know."""
    return relation.removesuffix(RUN_OF_KEYED)


def write_events(events: Iterable[RunEvent | JobEvent], file: Path) -> None:
    """Write events, one a line of JSON."""
    text = "".join(f"{Serde.to_json(event)}\n" for event in events)
    file.write_text(text, encoding="utf-8")


def send_events(events: Iterable[RunEvent | JobEvent], say: Callable[[str], None]) -> None:
    """Send events to OPENLINEAGE_URL, if it is set; a server that refuses them is reported.

    The ids of runs come from the commits, so that a server takes what is sent twice for one event.

    Args:
        say: takes a line for the user.
    """
    url, key = environment("OPENLINEAGE_URL"), environment("OPENLINEAGE_API_KEY")
    if not url:
        return
    settings: dict[str, Any] = {"url": url}
    if key:
        settings["auth"] = {"type": "api_key", "apiKey": key}
    transport = HttpTransport(HttpConfig.from_dict(settings))
    sent = 0
    try:
        for event in events:
            transport.emit(event)
            sent += 1
    except Exception as exc:
        say(f"OPENLINEAGE_URL took {sent} events and refused the next: {type(exc).__name__}.")
    else:
        say(f"{sent} events were sent to OPENLINEAGE_URL.")
    finally:
        transport.close()
