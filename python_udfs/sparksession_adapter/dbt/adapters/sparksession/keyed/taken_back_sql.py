"""The SQL of what a fold would keep of rows that its changes take back.

Such a row has the place of what it takes, which is where a fold lets what gives win. So a run looks
at whether values would stay that are gone; then all rows are made again.
"""

from __future__ import annotations

from collections.abc import Iterator

from dbt.adapters.sparksession.keyed.fold_sql import FoldSql
from dbt.adapters.sparksession.keyed.groups import ORDER, ROW_COUNT, any_known
from dbt.adapters.sparksession.keyed.layout import named_struct
from dbt.adapters.sparksession.sql import quoted


class TakenBackSql(FoldSql):
    """The queries that look for what stays of what a run's rows take back."""

    def taken_back_last(self, rows: str) -> str | None:
        """Query that has a row where, of a key's changes, one that takes back stands behind those
        that give, by an order of the fold, or at the same place by its values: what was stored
        before may stand in its place and count all the same. None of a fold that no order rules.

        Args:
            rows: SQL text for a `from`: the model's rows, each with the values of its image.
        """
        found = []
        for taken, given in self._images():
            # counted rows are looked at where they are counted, see taken_alone
            alone = "false" if self.count_rows else f"{taken} is not null"
            found.append(f"coalesce({taken} > {given}, {alone})")
        if not found:
            return None
        keys = ", ".join(map(quoted, self.key))
        return f"select 1 from {rows} group by {keys} having {' or '.join(found)} limit 1"

    def taken_alone(self, rows: str, runs: str) -> str | None:
        """Query that has a row where a key has lost rows and got none, and has others left, of
        which any may be the newest now. None of a fold that counts no rows, or orders none.

        Args:
            rows: as above.
            runs: SQL text for a `from`: the state rows that are stored.
        """
        alone = [f"({taken} is not null and {given} is null)" for taken, given in self._images()]
        if not (self.count_rows and alone):
            return None
        keys = ", ".join(map(quoted, self.key))
        same = " and ".join(f"held.{quoted(key)} <=> lost.{quoted(key)}" for key in self.key)
        lost = (
            f"select {keys}, sum(if({self._is_upsert}, 1L, -1L)) as net_count from {rows} "
            f"group by {keys} having {' or '.join(alone)}"
        )
        of_key = ", ".join(f"held.{quoted(key)}" for key in self.key)
        return (
            f"select 1 from {runs} as held inner join ({lost}) as lost on {same} group by {of_key} "
            f"having sum(held.{quoted(ROW_COUNT)}) + any_value(lost.net_count) <> 0 limit 1"
        )

    def _images(self, ignored: bool = False) -> Iterator[tuple[str, str]]:
        """SQL aggregates over the rows of a key, of each order in which values are taken back:
        place and values of the newest row that takes back, and of the newest that gives.

        Args:
            ignored: of the orders in which values are not taken back (on_delete: ignore) instead.
        """
        for group in self.all_groups:
            if not group.order or self._retracts(group) is ignored:
                continue
            there = f"({any_known(group.sequence or group.tie_break)})"
            place, plain = {"place": self._order(group)}, self._plain(group)
            images = [(there, named_struct(place | {name: quoted(name) for name in plain}))]
            for name, aggregate in self.aggregates.items():
                is_last = aggregate.function in ("last_value", "last_non_null_value")
                if is_last and not aggregate.ignore_retract and self._group_of(name) is group:
                    known = f" and {quoted(name)} is not null"
                    takes = there + known * (aggregate.function == "last_non_null_value")
                    images.append((takes, named_struct(place | {"value": quoted(name)})))
            for takes, image in images:
                taken, given = (
                    f"max(case when {takes} and {is_one} then {image} end)"
                    for is_one in (f"not {self._is_upsert}", self._is_upsert)
                )
                yield taken, given

    def ignored_in_place(self, rows: str) -> str | None:
        """Query that has a row where a group that ignores deletes keeps values of a row that has
        changed: the row kept its place, or got an older place. None of a fold without such groups.

        Args:
            rows: as above.
        """
        found = [
            f"coalesce({taken} > {given}, false)" for taken, given in self._images(ignored=True)
        ]
        if self.row_kind is None or not found:
            return None
        keys = ", ".join(map(quoted, self.key))
        return f"select 1 from {rows} group by {keys} having {' or '.join(found)} limit 1"

    def reset_values(self, rows: str, runs: str) -> str | None:
        """Query that has a row where a row is taken back that stands behind the last known value of
        its key, which is of another row and would go with it. None of a fold without such values.

        Args:
            rows, runs: as above.
        """
        keys = ", ".join(map(quoted, self.key))
        same = " and ".join(f"held.{quoted(key)} <=> lost.{quoted(key)}" for key in self.key)
        found = []
        for name, aggregate in self.aggregates.items():
            group = self._group_of(name)
            if aggregate.function != "last_non_null_value" or aggregate.ignore_retract:
                continue
            if not self._resets(group):
                continue
            there, order = any_known(group.sequence or group.tie_break), self._order(group)
            taken = f"max(case when ({there}) and not {self._is_upsert} then {order} end)"
            is_given = f"({there}) and {self._is_upsert} and {quoted(name)} is not null"
            given = f"max(case when {is_given} then {order} end)"
            lost = (
                f"select {keys}, {taken} as taken from {rows} group by {keys} "
                f"having coalesce({taken} > {given}, {taken} is not null)"
            )
            found.append(
                f"select 1 from {runs} as held inner join ({lost}) as lost on {same} "
                f"where held.{quoted(ORDER + name)} < lost.taken"
            )
        return f"{' union all '.join(found)} limit 1" if found else None
