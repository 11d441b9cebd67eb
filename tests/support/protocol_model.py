"""The protocol of lease, takeover, commit, publication and going back, as a state machine.

Each step is a real step of the adapter, named by its function. What Spark does for a run (a
statement) is apart from the run's process: on Spark Connect it goes on after the process has ended,
in a process of its own it goes on until Java has noticed. All interleavings of the steps of two
writers and a reader, of statements that commit, of processes that die and of new runs in their
place are explored, breadth first, so that the first trace that breaks an invariant is short.

The warehouse has one table `rows`, to which new rows of the source are appended, and one table
`days` with their number, which is replaced. An append is put behind whatever stands there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

CONNECT, LOCAL = "connect", "local"
SOURCE = (1, 2)  # rows that have landed; the first version holds the first
MUTANTS = {
    "takes_over_without_ending": "Lease._end_sessions_before ends nothing",
    "takes_over_without_waiting": "end_session interrupts, but doesn't wait until it has ended",
    "ends_before_it_takes": "Lease._end_sessions_before runs before Lease._change",
    "notes_without_confirm": "Lease.note_session doesn't ask the table behind it",
    "writes_before_it_notes": "a node writes before Lease.note_session",
    "takes_without_condition": "Lease._change overwrites whatever stands there",
    "does_not_wait_for_java": "Lease._engine_runs isn't asked",
    "publishes_without_condition": "Versions._append adds a version whatever has been published",
    "views_without_versions": "guarded: a view doesn't look at which version is the newest",
    "publishes_its_own_half": "Versions.publish takes days as in the version before",
}


class Rows(NamedTuple):
    """A commit of `rows`: what the table holds then, and how far its source was read."""

    held: tuple[int, ...]
    upto: int


class Days(NamedTuple):
    """A commit of `days`: the number, and the commit of `rows` that it was counted from."""

    count: int
    of: int


class Statement(NamedTuple):
    """What Spark works on for a run; `is_tidied`: its files have been deleted."""

    run: int
    kind: str
    value: tuple
    is_tidied: bool = False


class Run(NamedTuple):
    """One run of a writer. `number` 0: none has begun."""

    number: int = 0
    step: str = "begin"
    is_alive: bool = False
    seen: tuple[int, int] = (0, 0)  # generation and holder as Lease._row gave them
    saw_end: bool = True
    rows: int = 0  # the commit of `rows` that it has pinned
    version: tuple = ()
    before: int = 0  # versions when it looked
    left: int = 2  # runs that this writer may begin


class Reader(NamedTuple):
    step: int = 0
    begun: int = 0
    rows: frozenset = frozenset()
    days: frozenset = frozenset()


class State(NamedTuple):
    generation: int = 0
    holder: int = 0
    noted: frozenset = frozenset()  # runs whose session the lease's table names
    closed: frozenset = frozenset()  # runs whose session, or Java, has ended
    rows: tuple = (Rows((1,), 1),)
    rows_head: int = 0
    days: tuple = (Days(1, 0),)
    days_head: int = 0
    versions: tuple = ((0, 0, 1),)  # commit of rows, of days, the number
    rows_view: frozenset = frozenset({0})  # commits that the view knows
    days_view: frozenset = frozenset({0})
    statements: frozenset = frozenset()
    writers: tuple = (Run(), Run())
    reader: Reader = Reader()
    crashes: int = 2
    broken: str = ""


@dataclass(frozen=True)
class Model:
    """
    Attributes:
        place: where Spark runs.
        is_far: whether a run may be presumed dead that only slept: its process is out of sight.
        goes_back: whether the second writer runs roll_back instead of build.
        mutant: a change of the protocol, see MUTANTS.
        only_versions: whether all but the versions' numbers is looked past.
        has_reader: whether a reader takes part.
        crashes: how many runs may die.
    """

    place: str = CONNECT
    is_far: bool = False
    goes_back: bool = False
    mutant: str = ""
    only_versions: bool = False
    has_reader: bool = True
    crashes: int = 2

    # ---- what can happen next --------------------------------------------------------------

    def next_states(self, now: State) -> Iterator[tuple[str, State]]:
        for place, run in enumerate(now.writers):
            if not run.is_alive:
                if run.left and run.step in ("begin", "dead"):
                    number = 2 * (2 - run.left) + place + 1
                    begun = Run(number, "Lease._row", True, left=run.left - 1)
                    yield f"run {number} begins", self._with(now, place, begun)
                continue
            if run.step not in ("ended", "refused", "failed") and now.crashes:
                dead = run._replace(is_alive=False, step="dead")
                yield (
                    f"run {run.number} dies at {run.step}",
                    self._with(now, place, dead)._replace(crashes=now.crashes - 1),
                )
            for after in self._steps(now, place, run):
                yield f"run {run.number}: {run.step}", after
        for work in now.statements:
            yield f"{work.kind} of run {work.run} commits", self._committed(now, work)
        if self.place == LOCAL:
            for run in now.writers:
                if run.step == "dead" and run.number not in now.closed:
                    yield f"Java of run {run.number} ends", self._ended(now, run.number)
        if self.has_reader:
            yield from self._reads(now)

    @staticmethod
    def _with(now: State, place: int, run: Run) -> State:
        writers = list(now.writers)
        writers[place] = run
        return now._replace(writers=tuple(writers))

    @staticmethod
    def _ended(now: State, number: int) -> State:
        """Nothing of a run's session or Java is left."""
        left = frozenset(work for work in now.statements if work.run != number)
        return now._replace(statements=left, closed=now.closed | {number})

    # ---- a writer ----------------------------------------------------------------------------

    def _steps(self, now: State, place: int, run: Run) -> Iterator[State]:
        def goes(step: str, world: State = now, **values: object) -> State:
            return self._with(world, place, run._replace(step=step, **values))

        lost = now.holder != run.number
        is_closed = run.number in now.closed
        busy = any(work.run == run.number for work in now.statements)

        if run.step == "Lease._row":
            seen = (now.generation, now.holder)
            yield goes("Lease._is_dead" if now.holder else "Lease._change", seen=seen)
        elif run.step == "Lease._is_dead":
            holder = next((other for other in now.writers if other.number == run.seen[1]), None)
            # of a writer whose next run has begun, the run before is dead
            is_dead = holder is None or not holder.is_alive or holder.step == "failed"
            if not is_dead and not self.is_far:
                yield goes("refused")
            elif self.place == LOCAL and is_dead and self.mutant != "does_not_wait_for_java":
                if run.seen[1] in now.closed:  # Lease._engine_runs
                    yield goes("Lease._change", saw_end=True)
            elif self.mutant == "ends_before_it_takes":
                yield goes("Lease._change", self._without_sessions(now), saw_end=is_dead)
            else:
                yield goes("Lease._change", saw_end=is_dead or self.place == CONNECT)
        elif run.step == "Lease._change":
            is_changed = (now.generation, now.holder) != run.seen
            if is_changed and self.mutant != "takes_without_condition":
                yield goes("refused")
                return
            taken = now._replace(generation=now.generation + 1, holder=run.number)
            yield goes("Lease._end_sessions_before", taken)
        elif run.step == "Lease._end_sessions_before":
            keeps = ("takes_over_without_ending", "ends_before_it_takes")
            after = now
            if self.place == CONNECT and self.mutant == "takes_over_without_waiting":
                after = now._replace(noted=frozenset())
            elif self.place == CONNECT and self.mutant not in keeps:
                after = self._without_sessions(now)
            early = self.mutant == "writes_before_it_notes"
            yield goes("TableReads.new_rows" if early else "Lease.note_session", after)
        elif run.step == "Lease.note_session":
            noted = now._replace(noted=now.noted | {run.number})
            unasked = self.mutant == "notes_without_confirm"
            yield goes("TableReads.new_rows" if unasked else "Lease.confirm", noted)
        elif run.step == "Lease.confirm":
            if lost:
                yield goes("failed")
            elif self.goes_back and place == 1:
                yield goes("Rollback.roll_back")
            else:
                yield goes("TableReads.new_rows")
        elif is_closed:  # a statement on a session that has been closed fails
            yield goes("failed")
        elif run.step == "TableReads.new_rows":
            upto = now.rows[now.rows_head].upto
            new = SOURCE[upto:]
            after = now
            if new:
                after = self._begun(now, run, "append to rows", (new, len(SOURCE)))
            yield goes("Inputs.pinned", after)
        elif busy:  # it waits for its statement
            return
        elif run.step == "Inputs.pinned":
            yield goes("write days", rows=now.rows_head)
        elif run.step == "write days":
            value = (len(now.rows[run.rows].held), run.rows)
            step = "Lease.note_late" if self.mutant == "writes_before_it_notes" else "publish"
            yield goes(step, self._begun(now, run, "replace days", value))
        elif run.step == "Lease.note_late":
            yield goes("publish", now._replace(noted=now.noted | {run.number}))
        elif run.step == "publish":  # Versions.publish
            newest = now.versions[-1]
            days = newest[1] if self.mutant == "publishes_its_own_half" else now.days_head
            version = (run.rows, days)
            if self.mutant != "publishes_its_own_half" and now.days[days].of != run.rows:
                yield goes("OneWriter.give_back_lease")  # Versions._unpublished_input
            elif version == newest[:2]:
                yield goes("OneWriter.give_back_lease")
            else:
                yield goes("confirm 1", version=version, before=newest[2])
        elif run.step == "Rollback.roll_back":
            yield goes("confirm 1", version=now.versions[0][:2], before=now.versions[-1][2])
        elif run.step in ("confirm 1", "confirm 2"):  # HeldLease.confirm
            step = "write rows view" if run.step == "confirm 1" else "Versions._append"
            yield goes("failed" if lost else step)
        elif run.step == "write rows view":
            known = {now.versions[-1][0], run.version[0]}
            after = self._begun(now, run, "rows view", tuple(sorted(known)))
            yield goes("write days view", after)
        elif run.step == "write days view":
            known = {now.versions[-1][1], run.version[1]}
            yield goes("confirm 2", self._begun(now, run, "days view", tuple(sorted(known))))
        elif run.step == "Versions._append":
            value = (*run.version, run.before + 1)
            goes_back = self.goes_back and place == 1
            step = "Rollback.put_back" if goes_back else "OneWriter.give_back_lease"
            yield goes(step, self._begun(now, run, "version", value))
        elif run.step == "Rollback.put_back":
            if lost:
                yield goes("failed")
            elif (now.rows_head, now.days_head) == run.version:
                yield goes("OneWriter.give_back_lease")
            elif now.rows_head != run.version[0]:
                yield goes(run.step, self._begun(now, run, "set rows", run.version))
            else:
                yield goes(run.step, self._begun(now, run, "set days", run.version))
        elif run.step == "OneWriter.give_back_lease":
            if lost:
                yield goes("failed")
                return
            after = now
            if run.seen[1] and run.saw_end:
                tidied = frozenset(work._replace(is_tidied=True) for work in now.statements)
                after = now._replace(statements=tidied)
            yield goes("Lease.give_back", after)
        elif run.step == "Lease.give_back":
            after = now._replace(noted=now.noted - {run.number})
            if not lost:
                after = after._replace(generation=now.generation + 1, holder=0)
            yield goes("ended", after)

    def _without_sessions(self, now: State) -> State:
        """Every session that the lease's table names is interrupted, left and closed."""
        for number in now.noted:
            now = self._ended(now, number)
        return now._replace(noted=frozenset())

    @staticmethod
    def _begun(now: State, run: Run, kind: str, value: tuple) -> State:
        return now._replace(statements=now.statements | {Statement(run.number, kind, value)})

    # ---- Spark ---------------------------------------------------------------------------------

    def _committed(self, now: State, work: Statement) -> State:
        now = now._replace(statements=now.statements - {work})
        if work.is_tidied and not self.only_versions:
            return now._replace(broken="a commit's files have been deleted")
        if work.kind == "append to rows":
            held = tuple(sorted((*now.rows[now.rows_head].held, *work.value[0])))
            rows = (*now.rows, Rows(held, work.value[1]))
            now = now._replace(rows=rows, rows_head=len(rows) - 1)
            if len(set(held)) < len(held) and not self.only_versions:
                return now._replace(broken="a row came twice")
        elif work.kind == "replace days":
            days = (*now.days, Days(*work.value))
            now = now._replace(days=days, days_head=len(days) - 1)
        elif work.kind == "rows view":
            now = now._replace(rows_view=frozenset(work.value))
        elif work.kind == "days view":
            now = now._replace(days_view=frozenset(work.value))
        elif work.kind == "set rows":
            now = now._replace(rows_head=work.value[0])
        elif work.kind == "set days":
            now = now._replace(days_head=work.value[1])
        else:
            return self._published(now, work)
        return now

    def _published(self, now: State, work: Statement) -> State:
        rows, days, number = work.value
        known = {version[2] for version in now.versions}
        if number in known and self.mutant != "publishes_without_condition":
            return now  # Iceberg refuses the commit: the run fails, and publishes nothing
        now = now._replace(versions=(*now.versions, work.value))
        if number in known:
            return now._replace(broken="two versions have one number")
        if self.only_versions:
            return now
        if now.days[days].of != rows or now.days[days].count != len(now.rows[rows].held):
            return now._replace(broken="a version mixes two runs")
        if now.rows[rows].held != SOURCE and not self.goes_back:
            return now._replace(broken="a version lacks a row")
        return now

    # ---- a reader ------------------------------------------------------------------------------

    def _reads(self, now: State) -> Iterator[tuple[str, State]]:
        """Spark finds the two views one after the other, and reads the versions once."""
        reader = now.reader
        if reader.step == 0:
            begun = Reader(1, now.versions[-1][2], now.rows_view)
            yield "a reader finds rows", now._replace(reader=begun)
        elif reader.step == 1:
            yield (
                "a reader finds days",
                now._replace(reader=reader._replace(step=2, days=now.days_view)),
            )
        else:
            newest = now.versions[-1]
            done = now._replace(reader=Reader())
            if self.mutant == "views_without_versions":
                read = (max(reader.rows), max(reader.days))
            elif newest[0] in reader.rows and newest[1] in reader.days:
                read = newest[:2]
            else:
                yield "a reader is asked to read again", done
                return
            at = {version[2] for version in now.versions if version[:2] == read}
            if not self.only_versions and not any(number >= reader.begun for number in at):
                done = done._replace(broken="a reader saw no version, or an older version")
            yield f"a reader reads {read}", done


@dataclass(frozen=True)
class Explored:
    """
    Attributes:
        states: how many were seen.
        broken: the invariant that doesn't hold; "" where all do.
        trace: the steps that lead there.
        published: how many states have a further version.
    """

    states: int
    broken: str
    trace: list[str]
    published: int


def explore(model: Model, most: int = 3_000_000) -> Explored:
    """Every state that can be reached, or the first in which an invariant is broken."""
    first = State(crashes=model.crashes)
    before: dict[State, tuple[State, str] | None] = {first: None}
    waiting, published = [first], 0
    while waiting:
        found = []
        for now in waiting:
            for step, after in model.next_states(now):
                if after in before:
                    continue
                before[after] = (now, step)
                if after.broken:
                    return Explored(len(before), after.broken, _trace(before, after), published)
                published += len(after.versions) > 1
                found.append(after)
        assert len(before) <= most, f"more than {most} states"
        waiting = found
    return Explored(len(before), "", [], published)


def _trace(before: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    steps = []
    link = before[state]
    while link is not None:
        steps.append(link[1])
        link = before[link[0]]
    return steps[::-1]


def mutated(model: Model, mutant: str) -> Model:
    assert mutant in MUTANTS
    return replace(model, mutant=mutant)
