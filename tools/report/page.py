"""The report as one HTML file: sections of numbers, notes, charts and tables.

All that comes from data is escaped: texts by Jinja's autoescape, what scripts read as JSON without
`<`, and the page's policy allows no request.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import vl_convert
from altair.utils._importers import vl_version_for_vl_convert
from jinja2 import Environment, FileSystemLoader

from tools.lineage.warehouse import REASONS, Lineage
from tools.report import charts
from tools.report.declared import Counted
from tools.report.facts import Facts

PAGE = Path(__file__).parent / "page"
GOOD, BAD = "good", "bad"
TEXT = 300  # characters of a cell
LAYERS = ("log", "seed", "ods", "snapshot", "dwd", "dws", "dqc", "meta", "source")
RUNS, VERSIONS = 10, 20


@dataclass(frozen=True)
class Card:
    """A number of a section; `id` names it for whoever looks for it."""

    id: str
    label: str
    value: str
    tone: str = ""


@dataclass(frozen=True)
class Note:
    """A line of a section; BAD where a person has to do something."""

    text: str
    tone: str = ""


@dataclass(frozen=True)
class Cell:
    """A value of a table as text."""

    text: str
    is_number: bool = False


@dataclass(frozen=True)
class Grid:
    """A table of a section."""

    id: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    empty: str = "None."


@dataclass
class Section:
    """A tab of the page."""

    id: str
    title: str
    cards: list[Card] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    charts: list[dict[str, str]] = field(default_factory=list)
    tables: list[Grid] = field(default_factory=list)
    layers: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Context:
    """What the report is made of.

    Attributes:
        name: the project's name.
        zone: the business zone.
        made_at: when the report was made.
        facts: rows of the queries.
        counted: the tables of declared counts.
        lineage: columns of all tables; None where the models couldn't be compiled.
        results: `results` of dbt's run_results.json, and the `manifest` of that command.
        elapsed: seconds of the command that run_results.json is of.
    """

    name: str
    zone: str
    made_at: datetime
    facts: Facts
    counted: Sequence[Counted]
    lineage: Lineage | None
    results: Sequence[Mapping[str, Any]] = ()
    elapsed: float = 0.0
    run_id: str = ""


def number(value: Any) -> str:
    return "-" if value is None else f"{value:,}"


def cell(value: Any) -> Cell:
    if isinstance(value, datetime):
        return Cell(value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S"))
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return Cell(number(value), is_number=True)
    text = "" if value is None else str(value)
    return Cell(text if len(text) <= TEXT else f"{text[:TEXT]} ..")


def grid(id: str, title: str, rows: Iterable[Mapping[str, Any]], empty: str = "None.") -> Grid:
    """A table whose columns are the rows' own names."""
    rows = list(rows)
    columns = [name.replace("_", " ") for name in rows[0]] if rows else []
    return Grid(id, title, columns, [[cell(one) for one in row.values()] for row in rows], empty)


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"


class Page:
    """The page of one context."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.rows = context.facts.rows
        self.specs: dict[str, dict[str, Any]] = {}

    def html(self) -> str:
        """The whole file."""
        correctness = self.correctness()
        received = self.received()
        sections = [
            self.overview([*correctness.notes, *received.notes]),
            received,
            correctness,
            self.counts(),
            self.versions(),
            self.lineage(),
        ]
        loader = FileSystemLoader(PAGE)
        environment = Environment(loader=loader, autoescape=True, trim_blocks=True)
        return environment.get_template("report.html.j2").render(
            title=f"{self.context.name}: state of the warehouse",
            subtitle=f"Made at {cell(self.context.made_at).text} UTC.",
            zone=self.context.zone,
            sections=sections,
            specs=script_json(self.specs),
            lineage=script_json(self.lineage_data()),
            vega=vl_convert.javascript_bundle(vl_version=vl_version_for_vl_convert()),
            css=(PAGE / "report.css").read_text(encoding="utf-8"),
            script=(PAGE / "report.js").read_text(encoding="utf-8"),
        )

    def add_chart(self, section: Section, title: str, spec: dict[str, Any]) -> None:
        id = f"chart-{len(self.specs) + 1}"
        self.specs[id] = spec
        section.charts.append({"id": id, "title": title})

    # ---- sections ------------------------------------------------------------------------

    def overview(self, notes: Sequence[Note]) -> Section:
        """What needs a person first, then the newest version and the last runs."""
        section = Section("overview", "Overview")
        newest = next(iter(self.rows["versions"]), None)
        runs = self.runs()
        if newest:
            age = (self.context.made_at - newest["published_at"]).total_seconds()
            section.cards += [
                Card("version", "newest version", number(newest["version"])),
                Card("age", "since it was published", duration(age)),
                Card("tables", "tables in it", number(newest["tables"])),
            ]
        else:
            section.cards.append(Card("version", "no version is published yet", "-"))
        failed = [one for one in self.context.results if one["status"] in ("error", "fail")]
        section.notes = [
            Note(f"{_name(one['unique_id'])} ended as {one['status']} in the last command.", BAD)
            for one in failed[:20]
        ]
        section.notes += [note for note in notes if note.tone == BAD]
        if newest and newest["behind"]:
            text = ", ".join(newest["behind"])
            section.notes.append(Note(f"The newest version has tables on older rows: {text}.", BAD))
        section.cards.append(
            Card("to_do", "need a person", number(len(section.notes)), BAD if section.notes else GOOD)
        )
        if not section.notes:
            section.notes.append(Note("Nothing needs a person.", GOOD))
        section.tables.append(grid("runs", f"The last {RUNS} runs that wrote", runs[:RUNS]))
        return section

    def runs(self) -> list[dict[str, Any]]:
        """The runs that wrote tables, newest first."""
        versions = {one["run_id"]: one["version"] for one in self.rows["versions"]}
        known: dict[str, dict[str, Any]] = {}
        for row in self.rows["run_tables"]:
            run = known.setdefault(
                row["run_id"],
                {
                    "run": row["run_id"],
                    "status": f"published as version {versions[row['run_id']]}"
                    if row["run_id"] in versions
                    else "not published",
                    "first_commit": row["first_commit"],
                    "last_commit": row["last_commit"],
                    "seconds": 0.0,
                    "tables": 0,
                    "rows_added": 0,
                    "rows_removed": 0,
                },
            )
            run["first_commit"] = min(run["first_commit"], row["first_commit"])
            run["last_commit"] = max(run["last_commit"], row["last_commit"])
            run["tables"] += 1
            run["rows_added"] += row["rows_added"]
            run["rows_removed"] += row["rows_removed"]
        for run in known.values():
            of_commits = (run["last_commit"] - run["first_commit"]).total_seconds()
            is_last = run["run"] == self.context.run_id
            run["seconds"] = round(self.context.elapsed if is_last else of_commits, 1)
        return list(known.values())

    def received(self) -> Section:
        """What came in and what became of it."""
        section = Section("input", "Input")
        topics, accounting = self.rows["topics"], self.rows["accounting"]
        total = {
            name: sum(row[name] for row in accounting)
            for name in (
                "messages_in",
                "applied",
                "duplicates",
                "filtered",
                "rejected",
                "unaccounted",
            )
        }
        missing = sum(row["missing"] for row in topics)
        lags = [row["lag_seconds"] for row in topics if row["lag_seconds"] is not None]
        section.cards = [
            Card("messages", "messages in", number(total["messages_in"])),
            Card("applied", "= applied", number(total["applied"])),
            Card("duplicates", "+ duplicates", number(total["duplicates"])),
            Card("filtered", "+ filtered", number(total["filtered"])),
            Card("refused", "+ refused", number(total["rejected"]), _tone(total["rejected"])),
            Card(
                "unaccounted",
                "+ unaccounted for",
                number(total["unaccounted"]),
                _tone(total["unaccounted"]),
            ),
            Card("missing", "missing offsets", number(missing), _tone(missing)),
            Card("lag", "since the newest change", duration(min(lags) if lags else None)),
        ]
        texts = {
            "unaccounted": "{} changes are neither in a typed table nor refused.",
            "rejected": "{} messages were refused: see Input and meta_quarantine.",
        }
        section.notes = [
            Note(text.format(number(total[name])), BAD)
            for name, text in texts.items()
            if total[name]
        ]
        if missing:
            text = f"{number(missing)} offsets are missing within the topics."
            section.notes.append(Note(text, BAD))
        if self.rows["hours"]:
            self.add_chart(
                section, "Messages per hour and topic", charts.stacked_hours(self.rows["hours"])
            )
        if accounting:
            self.add_chart(section, "What became of the messages", charts.outcomes(accounting))
        if self.rows["late"]:
            late = charts.curve(self.rows["late"], "cut_date", "changes", None, "Late changes by day")
            self.add_chart(section, "Late changes by business day", late)
        section.tables = [
            grid("topics", "Topics", topics),
            grid("accounting", "In = applied + duplicates + filtered + refused", accounting),
            grid("refused", "Refused messages by reason, with a sample", self.rows["refused"]),
            grid("late", "Late data by business day", self.rows["late"]),
        ]
        return section

    def correctness(self) -> Section:
        """Gaps, verdicts, tests."""
        section = Section("correctness", "Correctness")
        breaks = sum(row["breaks"] for row in self.rows["breaks"])
        newest: dict[str, Mapping[str, Any]] = {}
        for row in self.rows["quality"]:
            newest.setdefault(row["check_name"], row)
        wrong = [row for row in newest.values() if row["verdict"] in ("failed", "differs")]
        tests = [one for one in self.context.results if one["unique_id"].startswith("test.")]
        bad = [one for one in tests if one["status"] not in ("pass", "skipped")]
        section.cards = [
            Card("breaks", "open breaks of chains", number(breaks), _tone(breaks)),
            Card("checks", "reconciliations", number(len(newest))),
            Card("failed_checks", "of them fail", number(len(wrong)), _tone(len(wrong))),
            Card("tests", "data tests in the last command", number(len(tests))),
            Card("failed_tests", "of them didn't pass", number(len(bad)), _tone(len(bad))),
        ]
        if breaks:
            text = f"{number(breaks)} open breaks in the chain of the orders' log."
            section.notes.append(Note(text, BAD))
        section.notes += [
            Note(f"{row['check_name']}: {row['groups_differing']:,} groups differ.", BAD)
            for row in wrong
        ]
        if self.rows["breaks"]:
            spec = charts.bars(self.rows["breaks"], "kind", "breaks", "Open breaks by kind")
            self.add_chart(section, "Open breaks by kind", spec)
        if self.rows["quality"]:
            spec = charts.curve(
                self.rows["quality"],
                "checked_at",
                "groups_differing",
                "check_name",
                "Groups that differ, by check",
            )
            self.add_chart(section, "Groups that differ, by check", spec)
        section.tables = [
            grid("breaks", "Open breaks by kind", self.rows["breaks"]),
            grid("break-positions", "The newest open breaks", self.rows["break_positions"]),
            grid(
                "tests",
                "Data tests of the last command that didn't pass, with their query",
                [
                    {
                        "test": _name(one["unique_id"]),
                        "status": one["status"],
                        "rows": one.get("failures"),
                        "query": " ".join((one.get("compiled_code") or "").split()),
                    }
                    for one in bad
                ],
                "All passed." if tests else "The last command ran no data test.",
            ),
            grid(
                "quality",
                "Verdicts of the reconciliations, newest first",
                self.rows["quality"][:100],
                "No reconciliation has run yet: make reconcile runs them.",
            ),
            grid("compensations", "Days that were written anew", self.rows["compensations"]),
        ]
        return section

    def counts(self) -> Section:
        """The counts that the project declares."""
        section = Section("counts", "Counts")
        for one in self.context.counted:
            rows = self.context.facts.counts.get(one.name, [])
            for title, spec in charts.of_count(one, rows):
                self.add_chart(section, f"{one.name}: {title}", spec)
            if not one.has_days and not one.grains:
                for measure in one.measures:
                    total = sum((row[measure] or 0) for row in rows)
                    label = f"{measure.replace('_', ' ')} of {one.name}"
                    section.cards.append(Card(f"{one.name}.{measure}", label, number(total)))
                section.tables.append(grid(f"count-{one.name}", f"{one.name}, to date", rows))
        if not self.context.counted:
            section.notes.append(Note("The project declares no count."))
        return section

    def versions(self) -> Section:
        """What each version changed, and which version external stores hold."""
        section = Section("versions", "Versions")
        versions = self.rows["versions"]
        published = self.rows["publications"]
        section.cards = [
            Card("versions", "versions", number(versions[0]["version"] if versions else 0)),
            Card("targets", "tables in stores outside", number(len(published))),
        ]
        of_run = defaultdict(list)
        for row in self.rows["run_tables"]:
            of_run[row["run_id"]].append(row)
        section.tables = [
            grid(
                "versions",
                f"The last {VERSIONS} versions",
                [
                    {
                        "version": one["version"],
                        "published_at": one["published_at"],
                        "made_by": one["made_by"],
                        "tag": one["tag"],
                        "tables_and_views_changed": len(one["changed"] or ()),
                        "rows_added": sum(row["rows_added"] for row in of_run[one["run_id"]]),
                        "rows_removed": sum(row["rows_removed"] for row in of_run[one["run_id"]]),
                        "most_rows": ", ".join(
                            f"{row['table_name']} +{row['rows_added']:,} -{row['rows_removed']:,}"
                            for row in of_run[one["run_id"]][:4]
                        ),
                    }
                    for one in versions
                ],
                "No version is published yet.",
            ),
            grid(
                "version-tables",
                "Rows by table of the newest version's run",
                [
                    {
                        "table": row["table_name"],
                        "rows_added": row["rows_added"],
                        "rows_removed": row["rows_removed"],
                    }
                    for row in (of_run[versions[0]["run_id"]] if versions else ())
                ],
            ),
            grid(
                "publications",
                "Versions that stores outside hold",
                published,
                "No store is published to; see PUBLISH_TARGETS.",
            ),
        ]
        return section

    def lineage(self) -> Section:
        """Tables by layer; their columns are shown by the script."""
        section = Section("lineage", "Lineage")
        lineage = self.context.lineage
        if lineage is None:
            section.notes.append(Note("The models couldn't be compiled.", BAD))
            return section
        figures = lineage.figures
        section.cards = [
            Card("columns", "documented columns", number(figures["columns"])),
            Card("resolved", "end at source columns", number(figures["resolved"])),
        ]
        section.cards += [
            Card(reason, reason, number(figures[reason])) for reason in REASONS if figures[reason]
        ]
        section.cards.append(
            Card("unknown", "unknown", number(figures["unknown"]), _tone(figures["unknown"]))
        )
        section.notes = [Note(f"{reason}: {text}.") for reason, text in REASONS.items()]
        section.notes.append(Note("Choose a table to see where its columns come from."))
        status = {one["unique_id"]: one for one in self.context.results}
        layers = defaultdict(list)
        for table in lineage.tables.values():
            result = status.get(table.unique_id)
            written = (result or {}).get("adapter_response", {}).get("rows_affected")
            parts = [f"{len(table.columns)} columns"]
            parts += [str(result["status"])] if result else []
            parts += [f"{written:,} rows written"] if written is not None else []
            layers[table.layer].append({"name": table.name, "note": ", ".join(parts)})
        known = [name for name in LAYERS if name in layers]
        section.layers = [
            {"name": name, "tables": sorted(layers[name], key=lambda one: one["name"])}
            for name in [*known, *sorted(set(layers) - set(known))]
        ]
        return section

    def lineage_data(self) -> dict[str, Any]:
        """Per table what it reads, and each column with inputs, source columns and reasons."""
        lineage = self.context.lineage
        found = {}
        for table in lineage.tables.values() if lineage else ():
            columns = []
            for column in table.columns.values():
                roots = lineage.roots(table.name, column.name)  # type: ignore[union-attr]
                inputs = dict.fromkeys(f"{one.table}.{one.column}" for one in column.inputs)
                sources = sorted(f"{name}.{of}" for name, of in roots.columns)
                columns.append([column.name, list(inputs), sources, sorted(roots.reasons)])
            reads = {one.table for column in table.columns.values() for one in column.inputs}
            found[table.name] = {"reads": sorted(reads), "columns": columns}
        return {"tables": found, "reasons": REASONS}


def script_json(value: Any) -> str:
    """JSON that can stand within a script element, whatever its texts hold."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _tone(count: int) -> str:
    return BAD if count else GOOD


def _name(unique_id: str) -> str:
    return unique_id.split(".")[2]
