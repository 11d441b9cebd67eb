"""The places of a zipper's changes: whether rows of a table's changes have places of their own.

A log orders its changes, and each has a place. A row of a table has the place of its own columns:
where it changes and keeps that, or goes back, nothing shows which of its values are the newer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dbt.adapters.sparksession.keyed.layout import HIDDEN, RunLayout, named_struct, select_text
from dbt.adapters.sparksession.sql import quoted

KIND = f"{HIDDEN}kind__"  # what a change does: see RANKS
# what of one key and sequence counts: a delete ends what an upsert of its place began, and the
# -U of a plain update gives way to the +U that follows it at the same place
RANKS = {"-U": 0, "+I": 1, "+U": 1, "-D": 2}
UPSERT_RANK = 1
PLACED, HELD = "zipper__placed", "zipper__held"
GIVES, RETRACTS, DELETES, GIVEN, TAKEN, LAST = (
    f"{HIDDEN}{name}__" for name in ("gives", "retracts", "deletes", "given", "taken", "last_given")
)


class PlacesSql(RunLayout):
    """The queries that look for rows whose place shows no order."""

    sequence: tuple[str, ...]
    time: str
    types: Mapping[str, str]

    @property
    def row_key(self) -> tuple[str, ...]:
        """Columns that distinguish state rows."""
        return (*self.key, *self.sequence)

    @property
    def _held(self) -> list[str]:
        """Columns that a change gives values to."""
        taken = {*self.row_key, self.time}
        return [name for name in self.types if name not in taken]

    @property
    def _compared(self) -> list[str]:
        """Columns of a state row beside its key, in the order in which two of a key are compared:
        the greatest counts."""
        return [KIND, *(() if self.time in self.row_key else (self.time,)), *self._held]

    @property
    def _is_whole(self) -> bool:
        """Whether each row gives values to all columns."""
        return True

    @property
    def _orders(self) -> list[tuple[tuple[str, ...], Sequence[str]]]:
        """Each sequence that orders changes of a key, with the columns that it orders."""
        return [(self.sequence, [name for name in self._compared if name != KIND])]

    def out_of_place(self, rows: str, runs: str) -> str:
        """Query that counts places of a batch whose rows are stored with other values, or at which
        a row is taken back that is stored, and its key has no row at it or behind it.

        Args:
            rows: SQL text for a `from`: the model's rows.
            runs: SQL text for a `from`: the state rows that are stored.
        """
        gives, retracts, deletes, given, taken, last = (
            f"{PLACED}.{quoted(name)}" for name in (GIVES, RETRACTS, DELETES, GIVEN, TAKEN, LAST)
        )
        counts = []
        for sequence, columns in self._orders:
            changed = [
                f"{gives} and {deletes}",
                f"{gives} and {retracts} and not ({given} <=> {taken})",
                f"{retracts} and coalesce({_struct(sequence, PLACED)} > {last}, true)",
            ]
            if self._is_whole:
                changed.append(f"{gives} and not ({given} <=> {_struct(columns, HELD)})")
            counts.append(
                f"select count(distinct {_struct((*self.key, *sequence), PLACED)}) as places\n"
                f"from ({self._by_place(rows, sequence, columns)}) as {PLACED}\n"
                f"inner join {runs} as {HELD} on {_same((*self.key, *sequence))}\n"
                f"where {HELD}.{quoted(KIND)} = {UPSERT_RANK} and (({') or ('.join(changed)}))"
            )
        return f"select max(places) from ({' union all '.join(counts)}) as zipper__counts"

    def behind_deletes(self, rows: str, runs: str) -> str:
        """Query that counts places of a batch that aren't above that of a delete of their key,
        which is stored: their rows would stay deleted.

        Args:
            rows, runs: as above.
        """
        counts = [
            f"select count(distinct {_struct((*self.key, *sequence), PLACED)}) as places\n"
            f"from ({self._by_place(rows, sequence, columns)}) as {PLACED}\n"
            f"inner join {runs} as {HELD} on {_same(self.key)}\n"
            f"where {HELD}.{quoted(KIND)} = {RANKS['-D']} and {PLACED}.{quoted(GIVES)} "
            f"and {_struct(sequence, PLACED)} <= {_struct(sequence, HELD)}"
            for sequence, columns in self._orders
        ]
        return f"select max(places) from ({' union all '.join(counts)}) as zipper__counts"

    def _by_place(self, rows: str, sequence: Sequence[str], columns: Sequence[str]) -> str:
        """Query of the places of a batch: what rows they have, and the last that gives of a key."""
        kind = quoted(self.row_kind) if self.row_kind else "'+I'"
        is_given, is_taken = f"{kind} in ('+I', '+U')", f"{kind} in ('-U', '-D')"
        place = {name: quoted(name) for name in (*self.key, *sequence)}
        made = {
            GIVES: f"bool_or({is_given})",
            RETRACTS: f"bool_or({kind} = '-U')",
            DELETES: f"bool_or({kind} = '-D')",
            GIVEN: f"max(case when {is_given} then {_struct(columns)} end)",
            TAKEN: f"max(case when {is_taken} then {_struct(columns)} end)",
        }
        by_place = (
            f"({select_text(place | made, rows)}\nwhere {quoted(sequence[0])} is not null "
            f"group by {', '.join(place.values())}) as zipper__by_place"
        )
        last = f"max(case when {quoted(GIVES)} then {_struct(sequence)} end)"
        of_key = f"over (partition by {', '.join(map(quoted, self.key))})"
        return f"select *, {last} {of_key} as {quoted(LAST)}\nfrom {by_place}"


def _struct(names: Iterable[str], table: str = "") -> str:
    """SQL struct of some columns of a table."""
    prefix = f"{table}." if table else ""
    return named_struct({name: prefix + quoted(name) for name in names})


def _same(names: Iterable[str]) -> str:
    """SQL condition: a place and what is held agree in these columns."""
    return " and ".join(f"{PLACED}.{quoted(name)} <=> {HELD}.{quoted(name)}" for name in names)
