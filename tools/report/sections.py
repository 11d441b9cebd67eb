"""The sections of the report, made of the rows that were asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tools.lineage.warehouse import REASONS, Lineage
from tools.report import charts
from tools.report.declared import Counted
from tools.report.facts import Facts
from tools.report.parts import (
    BAD,
    GOOD,
    Card,
    Chart,
    Note,
    Section,
    duration,
    grid,
    isolated,
    number,
    numbered,
    tone,
)

LAYERS = ("log", "seed", "ods", "snapshot", "dwd", "dws", "dqc", "meta", "source")
RUNS, COMMANDS, NOTES = 10, 50, 30
OUTCOMES = ("messages_in", *charts.OUTCOMES)


@dataclass(frozen=True)
class Context:
    """What the report is made of.

    Attributes:
        name: the project's name.
        zone: the business zone.
        made_at: when the report was made, in UTC.
        facts: rows of the queries.
        counted: the tables of declared counts.
        lineage: columns of all tables.
        commands: what the last commands did, newest first, see history.py.
        results: unique id -> result of a node in the last command.
    """

    name: str
    zone: str
    made_at: datetime
    facts: Facts
    counted: Sequence[Counted]
    lineage: Lineage
    commands: Sequence[Mapping[str, Any]] = ()
    results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def rows(self) -> Mapping[str, list[dict[str, Any]]]:
        """Rows by the name of their query."""
        return self.facts.rows


def sections_of(context: Context) -> list[Section]:
    """All sections, in the order of the tabs."""
    received, correct = received_section(context), correctness_section(context)
    return [
        overview_section(context, [*correct.notes, *received.notes]),
        received,
        correct,
        counts_section(context),
        versions_section(context),
        lineage_section(context),
    ]


# ---- overview ----------------------------------------------------------------------------


def overview_section(context: Context, notes: Sequence[Note]) -> Section:
    """What needs a person, the newest version and the last runs.

    Args:
        notes: of the other sections.
    """
    section = Section("overview", "Overview")
    versions = context.rows["versions"]
    problems = [note for note in notes if note.tone == BAD]
    last = next(iter(context.commands), None)
    for problem in last["problems"] if last else ():
        if problem["status"] != "warn":
            ended = f"{isolated(problem['name'])} ended as {problem['status']} in the last command"
            rows = f", with {numbered(problem['rows'], 'row', 'rows')}" if problem["rows"] else ""
            problems.insert(0, Note(f"{ended}{rows}.", BAD))
    if versions and versions[0]["stale"]:
        names = ", ".join(versions[0]["stale"])
        problems.append(Note(f"The newest version has tables on older rows: {names}.", BAD))
    if missing := context.facts.missing:
        are = numbered(len(missing), "model isn't", "models aren't")
        text = f"{are} in the warehouse, or only as older code built them: {', '.join(missing)}."
        problems.append(Note(f"{text} make run builds them.", BAD))
    section.cards.append(Card("to_do", "need a person", number(len(problems)), tone(len(problems))))
    if versions:
        age = (context.made_at - versions[0]["published_at"]).total_seconds()
        section.cards += [
            Card("version", "newest version", number(versions[0]["version"])),
            Card("age", "since it was published", duration(age)),
            Card("tables", "tables in it", number(versions[0]["tables"])),
        ]
    else:
        section.cards.append(Card("version", "no version is published yet", "-"))
    section.notes = problems[:NOTES] or [Note("Nothing needs a person.", GOOD)]
    empty = "No run has written a table yet."
    section.tables.append(grid("runs", f"The last {RUNS} runs", runs(context)[:RUNS], empty))
    return section


def runs(context: Context) -> list[dict[str, Any]]:
    """The runs that wrote tables and the commands that are kept, newest first."""
    versions = {row["run_id"]: row["version"] for row in context.rows["versions"]}
    commits: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in context.rows["run_tables"]:
        commits[row["run_id"]].append(row)
    kept = {entry["id"]: entry for entry in context.commands}
    found = []
    for run in dict.fromkeys([*commits, *kept]):
        wrote, command = commits.get(run, []), kept.get(run)
        ended = max((row["last_commit"] for row in wrote), default=None)
        began = min((row["first_commit"] for row in wrote), default=None)
        seconds = (ended - began).total_seconds() if ended and began else 0.0
        moment = datetime.fromisoformat(command["ended_at"]) if command else ended
        status = command["status"] if command else ""
        if run in versions:
            status = f"published as version {versions[run]}"
        found.append(
            {
                "ended_at": moment,
                "command": command["command"] if command else "-",
                "status": status or "not published",
                "seconds": command["seconds"] if command else round(seconds, 1),
                "tables": len(wrote),
                "rows_added": sum(row["rows_added"] for row in wrote),
                "rows_removed": sum(row["rows_removed"] for row in wrote),
                "run": run,
            }
        )
    return sorted(found, key=lambda row: (row["ended_at"], row["run"]), reverse=True)


# ---- input -------------------------------------------------------------------------------


def received_section(context: Context) -> Section:
    """What came in and what became of it."""
    section = Section("input", "Input")
    rows = context.rows
    topics, accounting = rows["topics"], rows["accounting"]
    total = {name: sum(row[name] for row in accounting) for name in OUTCOMES}
    unaccounted = total["unaccounted"]
    missing = sum(row["missing"] for row in topics)
    newest = [row["last_event_time"] for row in topics if row["last_event_time"] is not None]
    lag = (context.made_at - max(newest)).total_seconds() if newest else None
    section.cards = [
        Card("messages", "messages in", number(total["messages_in"])),
        Card("applied", "= applied", number(total["applied"])),
        Card("duplicates", "+ duplicates", number(total["duplicates"])),
        Card("filtered", "+ filtered", number(total["filtered"])),
        Card("refused", "+ refused", number(total["refused"]), tone(total["refused"])),
        Card("unaccounted", "+ unaccounted", number(unaccounted), tone(unaccounted)),
        Card("missing", "missing offsets", number(missing), tone(missing)),
        Card("lag", "since the newest change", duration(lag)),
    ]
    if unaccounted:
        are = numbered(unaccounted, "message is", "messages are")
        text = f"{are} unaccounted: neither in a typed table nor refused (meta_accounting)."
        section.notes.append(Note(text, BAD))
    if refused := total["refused"]:
        were = numbered(refused, "message was", "messages were")
        text = f"{were} refused: the reasons are below Input (meta_quarantine)."
        section.notes.append(Note(text, BAD))
    if missing:
        are = numbered(missing, "offset is", "offsets are")
        section.notes.append(Note(f"{are} missing within topics (meta_topic_volume).", BAD))
    if accounting:
        section.charts.append(charts.outcomes(accounting))
    if rows["hours"]:
        section.charts.append(_hours_chart(context))
    if rows["late"]:
        late, left_out = charts.recent(
            rows["late"][::-1], "cut_date", context.made_at, "business day", "business days"
        )
        title = "Late changes by business day"
        section.charts.append(charts.curve(title, late, "cut_date", "changes", note=left_out))
    section.tables = [
        grid("refused", "Refused messages by reason, with a sample", rows["refused"]),
        grid("accounting", "In = applied + duplicates + filtered + refused", accounting),
        grid("topics", "Topics", topics, "No topic has a message."),
        grid("late", "Late data by business day", rows["late"][:50], "No change came late."),
    ]
    return section


def _hours_chart(context: Context) -> Chart:
    """Messages by hour; those of hours to come are counted in rows without an hour."""
    rows = context.rows["hours"]
    shown, left_out = charts.recent(
        rows, "hour", context.made_at, "hour of a topic", "hours of topics"
    )
    ahead = sum(row["messages"] for row in rows if row["hour"] is None)
    if ahead:
        count = numbered(ahead, "message", "messages")
        left_out = f"{left_out} Not drawn: {count} of hours that are still to come.".strip()
    return charts.hours(shown, left_out)


# ---- correctness -------------------------------------------------------------------------


def correctness_section(context: Context) -> Section:
    """Gaps, verdicts, tests."""
    section = Section("correctness", "Correctness")
    rows = context.rows
    breaks = sum(row["breaks"] for row in rows["breaks"])
    newest: dict[str, Mapping[str, Any]] = {}
    for row in rows["quality"]:
        newest.setdefault(row["check_name"], row)
    wrong = [row for row in newest.values() if row["verdict"] == "failed"]
    tested = [entry for entry in context.commands if entry["tests"]]
    last = tested[0]["tests"] if tested else {}
    failed = sum(last.get(status, 0) for status in ("fail", "error"))
    section.cards = [
        Card("breaks", "open breaks of chains", number(breaks), tone(breaks)),
        Card("checks", "reconciliations", number(len(newest))),
        Card("failed_checks", "of them fail", number(len(wrong)), tone(len(wrong))),
        Card("tests", "data tests in the last run", number(sum(last.values()))),
        Card("failed_tests", "of them failed", number(failed), tone(failed)),
        Card("warned_tests", "of them warned", number(last.get("warn", 0))),
    ]
    if breaks:
        are = numbered(breaks, "break of the log's chain is", "breaks of the log's chain are")
        section.notes.append(Note(f"{are} open (meta_order_chain_break).", BAD))
    for check in wrong:
        differ = numbered(check["groups_differing"], "group differs", "groups differ")
        section.notes.append(Note(f"{isolated(check['check_name'])}: {differ}.", BAD))
    if rows["breaks"]:
        section.charts.append(charts.bars("Open breaks by kind", rows["breaks"], "kind", "breaks"))
    if rows["quality"]:
        title, verdicts = "Groups that differ, by reconciliation", rows["quality"][::-1]
        columns = "checked_at", "groups_differing", "check_name"
        section.charts.append(charts.curve(title, verdicts, *columns))
    section.tables = [
        grid("breaks", "Open breaks by kind", rows["breaks"], "The chain has no gap."),
        grid("break-positions", "The newest open breaks, with positions", rows["break_positions"]),
        grid(
            "problems",
            "What failed or warned in the last commands, with its query",
            [
                {
                    "ended_at": datetime.fromisoformat(entry["ended_at"]),
                    "name": problem["name"],
                    "status": problem["status"],
                    "rows": problem["rows"],
                    "message": problem["message"],
                    "query": problem["query"],
                }
                for entry in context.commands
                for problem in entry["problems"]
            ][:COMMANDS],
            "All passed." if tested else "No command that ran data tests is known.",
            code=["query"],
        ),
        grid("tests", "Data tests over time", [_tests_of(entry) for entry in tested[:COMMANDS]]),
        grid(
            "quality",
            "Verdicts of the reconciliations, newest first",
            rows["quality"][:100],
            "No reconciliation has run yet: make reconcile runs them.",
        ),
        grid(
            "compensations",
            "Days that make compensate rewrote",
            rows["compensations"],
            "No day was rewritten by hand.",
        ),
    ]
    return section


def _tests_of(command: Mapping[str, Any]) -> dict[str, Any]:
    tests = command["tests"]
    return {
        "ended_at": datetime.fromisoformat(command["ended_at"]),
        "command": command["command"],
        "tests": sum(tests.values()),
        "passed": tests.get("pass", 0),
        "warned": tests.get("warn", 0),
        "failed": tests.get("fail", 0) + tests.get("error", 0),
        "skipped": tests.get("skipped", 0),
    }


# ---- counts ------------------------------------------------------------------------------


def counts_section(context: Context) -> Section:
    """The counts that the project declares."""
    section = Section("counts", "Counts")
    for counted in context.counted:
        rows = context.facts.counts.get(counted.name, [])
        group = charts.of_count(counted, rows, context.facts.beyond.get(counted.name))
        if group.charts or group.tables:
            section.groups.append(group)
        if not counted.has_days and not counted.grains:
            for measure in counted.measures:
                total = sum((row[measure] or 0) for row in rows)
                label = f"{charts.words(measure)} of {counted.name}"
                section.cards.append(Card(f"{counted.name}.{measure}", label, number(total)))
    if not context.counted:
        section.notes.append(Note("The project declares no count."))
    return section


# ---- versions ----------------------------------------------------------------------------


def versions_section(context: Context) -> Section:
    """What each version changed, and which version external stores hold."""
    section = Section("versions", "Versions")
    versions, published = context.rows["versions"], context.rows["publications"]
    newest = number(versions[0]["version"]) if versions else "-"
    section.cards = [
        Card("version", "newest version", newest),
        Card("targets", "tables in external stores", number(len(published))),
    ]
    of_run = defaultdict(list)
    for row in context.rows["run_tables"]:
        of_run[row["run_id"]].append(row)
    listed = [
        {
            "version": version["version"],
            "published_at": version["published_at"],
            "made_by": version["made_by"],
            "tag": version["tag"],
            "tables_and_views_changed": len(version["changed"] or ()),
            "rows_added": sum(row["rows_added"] for row in of_run[version["run_id"]]),
            "rows_removed": sum(row["rows_removed"] for row in of_run[version["run_id"]]),
        }
        for version in versions
    ]
    by_table = [
        {
            "version": version["version"],
            "table": row["table_name"].removesuffix("__runs"),
            "rows_added": row["rows_added"],
            "rows_removed": row["rows_removed"],
        }
        for version in versions
        for row in of_run[version["run_id"]]
    ]
    section.tables = [
        grid("versions", "The newest versions", listed, "No version is published yet."),
        grid("version-tables", "Rows by version and table", by_table[:300]),
        grid(
            "publications",
            "Versions that external stores hold",
            published,
            "No store is published to; PUBLISH_TARGETS names them.",
        ),
    ]
    return section


# ---- lineage -----------------------------------------------------------------------------


def lineage_section(context: Context) -> Section:
    """Tables by layer; the page's script shows their columns."""
    section = Section("lineage", "Lineage")
    lineage = context.lineage
    figures = lineage.figures
    unknown = figures["unknown"]
    section.cards = [
        Card("columns", "documented columns", number(figures["columns"])),
        Card("resolved", "end at source columns", number(figures["resolved"])),
        *(Card(key, f"are of: {key}", number(figures[key])) for key in REASONS if figures[key]),
        Card("unknown", "unknown", number(unknown), tone(unknown)),
    ]
    section.notes = [Note("Choose a table to see where each of its columns comes from.")]
    section.notes += [Note(f"{key}: {text}.") for key, text in REASONS.items() if figures[key]]
    layers = defaultdict(list)
    for table in lineage.tables.values():
        result = context.results.get(table.unique_id)
        parts = [f"{len(table.columns)} columns"]
        if result:
            parts.append(str(result["status"]))
            written = (result.get("adapter_response") or {}).get("rows_affected")
            parts += [f"{written:,} rows written"] if written is not None else []
        layers[table.layer].append({"name": table.name, "note": ", ".join(parts)})
    known = [name for name in LAYERS if name in layers]
    section.layers = [
        {"name": name, "tables": sorted(layers[name], key=lambda entry: str(entry["name"]))}
        for name in [*known, *sorted(set(layers) - set(known))]
    ]
    return section


def lineage_data(lineage: Lineage) -> dict[str, Any]:
    """Per table what it reads, and of each column its inputs, source columns and reasons."""
    found = {}
    for table in lineage.tables.values():
        columns = []
        for column in table.columns.values():
            roots = lineage.roots(table.name, column.name)
            inputs = dict.fromkeys(f"{read.table}.{read.column}" for read in column.inputs)
            sources = sorted(f"{name}.{of}" for name, of in roots.columns)
            columns.append([column.name, list(inputs), sources, sorted(roots.reasons)])
        reads = {read.table for column in table.columns.values() for read in column.inputs}
        found[table.name] = {"reads": sorted(reads), "columns": columns}
    return {"tables": found, "reasons": REASONS}
