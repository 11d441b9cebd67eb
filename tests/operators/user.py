"""A careless user of the small log's warehouse: what he has done, and how it is put right."""

from __future__ import annotations

import gzip
import re
import shutil
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.operators import answers
from tests.operators.small_log import FIX, make_project, models_of, text_of
from tests.support import histories
from tests.support.dbt_project import DbtProject, Outcome

# what nobody should have to read: frames of Python and Java, names of errors of the program
STACK = re.compile(
    r"Traceback \(most recent call last\)|^\s+at (?:org|java|scala|py4j)\.|Py4J|JVM stacktrace"
    r"|java\.(?:lang|util|io)\.\w*(?:Exception|Error)"
    r"|\b(?:Attribute|Key|Type|Index|Name|UnboundLocal|Assertion)Error\b",
    re.MULTILINE,
)
LONGEST_REFUSAL = 2_500  # characters; one sentence may name many things
FULL_REFRESH = re.compile(r"--full-refresh")
# what a run's end states of a model in batches, of which some are missing
MISSING_BATCHES = re.compile(
    r"run it with -s (\w+) --event-time-start (\S+) --event-time-end (\S+?)\.(?:\s|$)"
)
# the command that a refusal names for a table that has to be rebuilt, in either order
BUILD_AGAIN = re.compile(
    r"dbt (?:run|build) (?:-s ([\w+ ]+?) --full-refresh|--full-refresh -s ([\w+]+))"
)
GARBAGE = (b"", b"{", b"null", b"[1]", b'{"database":"shop","table":"order_info","type":"ins')


class WentWrong(AssertionError):
    """A table that is wrong, or a refusal that nobody understands."""


@dataclass
class User:
    """One session's folders, and the state that its steps have brought them to.

    Attributes:
        folder: of the project, the landing folder, the warehouse.
        seed: of the log.
        vars: those of every command, until a step changes them.
        edits: file of the project -> text before it was edited, None where it wasn't there.
        hidden: landed file -> where the whole one lies meanwhile.
        backups: folders of warehouses as they were.
        clock: days that the clock is ahead.
        lines: batch -> lines that have landed.
        refused: lines that have landed and are no messages.
        reported: what each step did.
        to_build: what operations asked to rebuild.
        refused_last: the last command, where it was refused, with the vars of it alone.
    """

    folder: Path
    seed: int
    vars: dict[str, Any] = field(default_factory=dict)
    edits: dict[str, str | None] = field(default_factory=dict)
    hidden: dict[Path, Path] = field(default_factory=dict)
    backups: list[Path] = field(default_factory=list)
    clock: int = 0
    lines: dict[str, list[bytes]] = field(default_factory=lambda: {"live": []})
    refused: int = 0
    held: set[tuple[str, int, int]] = field(default_factory=set)
    reported: list[str] = field(default_factory=list)
    to_build: set[str] = field(default_factory=set)
    refused_last: tuple[Outcome, dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        self.landing = self.folder / "landing"
        (self.landing / "topics").mkdir(parents=True)
        self.project = make_project(
            self.folder / "project",
            self.folder / "warehouse",
            self.landing,
            in_batches=self.seed % 4 == 2,
        )
        history = histories.generate(self.seed, days=6, keys=12, gaps=True)
        self.batches = histories.deliver(
            history, self.seed, batches=12, late_files=self.seed % 2 == 1
        )
        self.state = self.folder / "state"
        self.next_offset = 0  # of partition 1, for what comes beside the log

    # ---- the log -------------------------------------------------------------------------

    def land(self) -> int:
        """The next part of the log; how many messages."""
        batch = self.batches.pop(0) if self.batches else []
        histories.write_batch(self.landing, batch)
        self.lines["live"] += [line for _, line in batch]
        self.held |= {("live", 0, offset) for offset, _ in batch}
        return len(batch)

    def land_beside(self, lines: list[bytes]) -> None:
        """Lines that stand at another place than the log's own."""
        histories.write_batch(self.landing, list(enumerate(lines, self.next_offset)), partition=1)
        self.lines["live"] += lines
        self.held |= {("live", 1, self.next_offset + number) for number in range(len(lines))}
        self.next_offset += len(lines)

    def land_fix(self, random: Random) -> int:
        """Days of the log once more, some of them corrected, as a batch that counts from now on."""
        lines = self.lines["live"]
        days = sorted({histories._day_of(line) for line in lines if line not in GARBAGE})
        chosen = random.sample(days, max(1, len(days) // 2)) if days else []
        good = [line for line in lines if line not in GARBAGE]
        again = histories.import_again(good, chosen, random.randrange(10**6))
        folder = self.landing / "batches" / FIX
        folder.mkdir(parents=True)
        histories.write_batch(folder, list(enumerate(again)))
        self.lines[FIX] = again
        self.held |= {(FIX, 0, offset) for offset in range(len(again))}
        self.vars["batches"] = ["live", FIX]
        return len(again)

    def landed_files(self) -> list[Path]:
        return sorted(path for path in (self.landing / "topics").rglob("*.jsonl*"))

    def hide(self, path: Path, left: bytes | None) -> None:
        """Take a landed file away; with `left` those bytes stand in its place."""
        aside = self.folder / "aside" / path.relative_to(self.landing)
        aside.parent.mkdir(parents=True, exist_ok=True)
        if path not in self.hidden:
            shutil.move(path, aside)
            self.hidden[path] = aside
        if left is not None:
            path.write_bytes(left)

    def put_back(self, path: Path, as_old: bool) -> None:
        """Put a whole file in its place again, dated as it was or as of now."""
        aside = self.hidden.pop(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(aside, path)
        if not as_old:
            path.touch()

    # ---- the project ---------------------------------------------------------------------

    def edit(self, name: str, text: str | None) -> None:
        """Give a file another text, or none at all."""
        path = self.project.root / name
        before = path.read_text(encoding="utf-8") if path.is_file() else None
        self.edits.setdefault(name, before)
        if text is None:
            path.unlink()
        else:
            path.write_text(text, encoding="utf-8")

    def undo(self, name: str) -> None:
        before = self.edits.pop(name)
        path = self.project.root / name
        if before is None:
            path.unlink()
        else:
            path.write_text(before, encoding="utf-8")

    @property
    def is_clean(self) -> bool:
        """Whether all is there and nothing is edited."""
        return not self.edits and not self.hidden and not self.clock

    # ---- the warehouse -------------------------------------------------------------------

    def back_up(self) -> Path:
        """Copy the whole warehouse while no run runs."""
        # those of a warehouse that the session has left stay in their folders
        folder = self.folder / f"backup_{len(list(self.folder.glob('backup_*')))}"
        folder.mkdir()
        warehouse = self.project.warehouse
        if (warehouse / "data").is_dir():
            # files of tables are never changed, so a link is a copy
            shutil.copytree(warehouse / "data", folder / "data", copy_function=_link)
        _copy_catalog(warehouse / "catalog.db", folder / "catalog.db")
        self.backups.append(folder)
        return folder

    def restore(self, folder: Path) -> None:
        warehouse = self.project.warehouse
        shutil.rmtree(warehouse / "data", ignore_errors=True)
        if (folder / "data").is_dir():
            shutil.copytree(folder / "data", warehouse / "data", copy_function=_link)
        _copy_catalog(folder / "catalog.db", warehouse / "catalog.db")

    def restore_catalog(self, folder: Path) -> None:
        """Put a backup's catalog beside the tables as they are now."""
        _copy_catalog(folder / "catalog.db", self.project.warehouse / "catalog.db")

    def lose_catalog(self) -> None:
        """Empty the catalog, as a new catalog is that stands where the old catalog was lost."""
        # not deleted: this process has the file open
        opened = sqlite3.connect(self.project.warehouse / "catalog.db", timeout=60)
        with opened:
            for table in ("iceberg_tables", "iceberg_namespace_properties"):
                opened.execute(f"delete from {table}")
        opened.close()

    def go_to(self, warehouse: Path) -> None:
        """Go on in another warehouse; backups are of the warehouse before."""
        self.project = DbtProject(
            self.project.root, warehouse, self.project.profiles, landing=self.landing
        )
        self.backups.clear()

    def dbt(
        self, *args: str, vars: dict[str, Any] | None = None, expect: str | None = None
    ) -> Outcome:
        """Run dbt with the session's vars and those given; a refusal has to be readable.

        Args:
            expect: text of an error that was thrown on purpose.
        """
        outcome = self.project.run(*args, vars=self.vars | (vars or {}), expect_ok=None)
        self.refused_last = None if outcome.ok else (outcome, vars or {})
        self.reported.append(
            f"dbt {' '.join(args)} {vars or ''}: {'ok' if outcome.ok else 'refused'}"
        )
        if args[0] == "run-operation":
            # what an operation that passed leaves to do
            asked = BUILD_AGAIN.finditer(outcome.log)
            self.to_build.update(name for item in asked for name in (item[1] or item[2]).split())
        if not outcome.ok:
            text = refusal(outcome)
            self.reported.append("    " + text[:600].replace("\n", "\n    "))
            judge_refusal(args, text, expect)
        return outcome

    # ---- the end -------------------------------------------------------------------------

    def put_right(self, random: Random) -> None:
        """Undo what was edited, then do what refusals ask for until the plain build passes.

        Raises:
            WentWrong: it doesn't.
        """
        for name in list(self.edits):
            self.undo(name)
        for path in list(self.hidden):
            self.put_back(path, as_old=random.random() < 0.5)
        self.clock = 0
        known = models_of(self.project)
        if asked := [item for item in sorted(self.to_build) if item.rstrip("+") in known]:
            self.dbt("build", "--select", *asked, "--full-refresh")
        texts: list[str] = []
        for _ in range(8):
            outcome = self.dbt("build")
            missing = set(MISSING_BATCHES.findall(outcome.log))
            for name, start, end in sorted(missing):
                self.dbt("build", "-s", name, "--event-time-start", start, "--event-time-end", end)
            if outcome.ok and not missing:
                return
            texts.append(refusal(outcome))
            for name, result in outcome.results.items():
                if result.status == "fail":
                    raise WentWrong(f"the test {name} fails: {result.message}")
            self.do_what_it_asks(outcome, random)
        raise WentWrong("the plain build never passes:\n" + "\n--\n".join(texts[-2:]))

    def do_what_it_asks(
        self, outcome: Outcome, random: Random, vars: dict[str, Any] | None = None
    ) -> None:
        """Do what a refusal asks for, with the vars that the command had."""
        text = refusal(outcome)
        if "register_tables" in text:
            self.dbt("run-operation", "register_tables")
        if "drop_candidate" in text:
            choice = random.choice(("drop_candidate", "publish_candidate"))
            self.dbt("run-operation", choice)
        for name, result in outcome.results.items():
            if result.status == "error" and FULL_REFRESH.search(result.message):
                asked = BUILD_AGAIN.search(result.message)
                chosen = (asked[1] or asked[2]).split() if asked else [name]
                self.dbt("run", "--select", *chosen, "--full-refresh", vars=vars)

    def compare(self, schema: str = "dw", names: list[str] | None = None) -> int:
        """Compare tables with the plain answer; how many rows.

        Raises:
            WentWrong: some differ; all of them are named.
        """
        layers = [self.lines[batch] for batch in self.vars.get("batches", ["live"])]
        seed = text_of(self.project, "seeds/statuses.csv")
        wanted = answers.expected(layers, self.held, self.refused, seed)
        if "order_year" not in models_of(self.project):
            del wanted["order_year"]
        wrong, rows = [], 0
        for name in names or wanted:
            got = answers.found(self.project, name, schema)
            text = answers.difference(wanted[name], got)
            rows += got.total()
            if text:
                wrong.append(f"{schema}.{name}: {text}")
        if wrong:
            raise WentWrong("\n".join(wrong))
        return rows


def refusal(outcome: Outcome) -> str:
    """All that a command that failed states of it."""
    message = [
        f"{name}: {result.message}"
        for name, result in outcome.results.items()
        if result.status in ("error", "fail", "runtime error")
    ]
    if outcome.exception is not None:
        message.append(f"{type(outcome.exception).__name__}: {outcome.exception}")
    return "\n".join(message) or outcome.log[-1500:]


def judge_refusal(args: tuple[str, ...], text: str, expect: str | None) -> None:
    """Raise WentWrong where a refusal is more than a sentence."""
    if expect is not None and expect in text:
        return
    if stack := STACK.search(text):
        raise WentWrong(f"dbt {' '.join(args)} prints {stack[0].strip()!r}:\n{text[:3000]}")
    longest = max((len(part) for part in text.split("\n")), default=0)
    if not text.strip() or longest > LONGEST_REFUSAL:
        raise WentWrong(f"dbt {' '.join(args)} prints nothing that can be read:\n{text[:3000]}")


def cut(content: bytes, random: Random) -> bytes:
    """The first part of a file, as while it is being written."""
    return content[: random.randrange(1, max(2, len(content)))]


def lines_in(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content


def offsets_in(path: Path) -> range:
    """The offsets of a landed file's lines."""
    first = int(path.name.partition(".")[0].rpartition("+")[2])
    return range(first, first + len(lines_in(path).splitlines()))


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


def _copy_catalog(source: Path, target: Path) -> None:
    """Copy a catalog as SQLite does it, also while the other end is open."""
    if not source.is_file():
        return
    with sqlite3.connect(source) as argument, sqlite3.connect(target) as other:
        argument.backup(other)
    argument.close()
    other.close()
