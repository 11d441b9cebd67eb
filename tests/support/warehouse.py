"""The real project on landing data of a test, and what its tables hold."""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.support.dbt_project import REPO, DbtProject, Outcome, compiles_all, copied_profiles

TRUTH = REPO / "tests" / "fixtures" / "mysql56" / "truth"
SAMPLE = REPO / "landing" / "topics" / "maxwell" / "partition=0"
Counts = dict[tuple[int | None, str | None], tuple[int, Decimal]]

# which of several messages of the same change a row came by
MESSAGE = ("batch_id", "topic", "partition_number", "message_offset")
# what states how and when a row came in, not what it is
LOAD_COLUMNS = {"load_id", "run_offset"}
TABLES = (
    "ods_binlog",
    "ods_shop__order_info",
    "dwd_trade__order_changelog",
    "dws_trade__user_status_1d",
    "dws_trade__user_status_1m",
    "dws_trade__user_status_1y",
    "dws_trade__user_status_td",
)


class Warehouse(DbtProject):
    """The repository's project over an own landing folder and an own warehouse folder.

    Args:
        compiles: whether Spark compiles its queries in `make test` too; see compiles_all.
    """

    def __init__(self, folder: Path, *, compiles: bool = False, **env: Path | str) -> None:
        self.landing = folder / "landing"
        (self.landing / "topics").mkdir(parents=True, exist_ok=True)
        compiles |= compiles_all()
        profiles = None if compiles else copied_profiles(folder, compiles)
        options: dict[str, Any] = {"profiles": profiles, "landing": self.landing}
        super().__init__(REPO, folder / "warehouse", compiles=compiles, **options, **env)

    def build(
        self,
        *args: str,
        data_tests: bool = False,
        everything: bool = False,
        expect_ok: bool | None = True,
        **options: Any,
    ) -> Outcome:
        """Build what the counts are made of; with `data_tests` by `dbt build`, which checks it.

        With `everything` all models, seeds and snapshots are built. Unit tests are left out: they
        don't depend on the warehouse.
        """
        chosen = () if everything else ("--select", "+dws_trade__user_status_td")
        if not data_tests and not everything:
            return self.run("run", *chosen, *args, expect_ok=expect_ok, **options)
        left_out = ("unit_test",) if data_tests else ("unit_test", "test")
        chosen = ("--exclude-resource-type", *left_out, *chosen)
        return self.run("build", *chosen, *args, expect_ok=expect_ok, **options)

    def land(self, *files: Path) -> None:
        """Copy files of the sample into the landing folder."""
        target = self.landing / "topics" / "maxwell" / "partition=0"
        target.mkdir(parents=True, exist_ok=True)
        for file in files:
            (target / file.name).write_bytes(file.read_bytes())

    def land_lines(
        self,
        lines: Iterable[bytes],
        first_offset: int,
        gz: bool = False,
        topic: str = "maxwell",
        batch: str | None = None,
    ) -> Path:
        """Land `lines` (without newlines) as one file of partition 0; of `batch` if given."""
        root = self.landing / "batches" / batch if batch else self.landing
        folder = root / "topics" / topic / "partition=0"
        folder.mkdir(parents=True, exist_ok=True)
        content = b"".join(line + b"\n" for line in lines)
        name = f"{topic}+0+{first_offset:010d}.jsonl{'.gz' if gz else ''}"
        path = folder / name
        path.write_bytes(gzip.compress(content) if gz else content)
        return path

    def td(self, source: str = "dw.dws_trade__user_status_td") -> Counts:
        """(user_id, biz_status) -> (order_count, amount_sum) of the to-date counts, or of a query
        like them."""
        return counts_of(self.query(f"select * from {source}"))

    def daily(
        self, level: str = "1d", column: str = "cut_date"
    ) -> dict[tuple, tuple[int, Decimal]]:
        """(cut_date, user_id, biz_status) -> (net change of the number of orders, of their amount)
        of the daily counts, or of the level of months or years."""
        return {
            (row[column], _whole(row["user_id"]), row["biz_status"]): (
                row["order_count_change"],
                row["amount_sum_change"],
            )
            for row in self.query(f"select * from dw.dws_trade__user_status_{level}")
        }

    def refused(self) -> int:
        """Messages that the log or the orders' model refused."""
        return self.column(
            "select (select count(reject_reason) from dw.ods_binlog) "
            "+ (select count(reject_reason) from dw.ods_shop__order_info)"
        )[0]

    def rows(self, table: str, without: Collection[str] = ()) -> list[str]:
        """All rows of a table as sorted JSON texts, without the columns of the load and those of
        `without`."""
        names = [
            row["col_name"]
            for row in self.query(f"describe table dw.{table}")
            if row["col_name"] and not row["col_name"].startswith("#")
        ]
        left_out = {*LOAD_COLUMNS, *without}
        kept = ", ".join(f"`{name}`" for name in dict.fromkeys(names) if name not in left_out)
        sql = f"select to_json(struct({kept}), map('ignoreNullFields', 'false')) from dw.{table}"
        return sorted(self.column(sql))

    def contents(self, without: Collection[str] = ()) -> dict[str, list[str]]:
        """Table -> its rows, of every table and view that counts are made of; see rows."""
        return {table: self.rows(table, without) for table in TABLES}

    def snapshots(self, table: str) -> list[dict[str, Any]]:
        """A table's commits, oldest first: snapshot_id, parent_id, operation, summary."""
        return self.query(
            "select snapshot_id, parent_id, operation, summary "
            f"from dw.{table}.snapshots order by committed_at"
        )


def counts_of(rows: Iterable[dict[str, Any]]) -> Counts:
    """Rows of to-date counts as Counts."""
    return {
        (_whole(row["user_id"]), row["biz_status"]): (row["order_count"], row["amount_sum"])
        for row in rows
    }


def truth(tag: str) -> Counts:
    """MySQL's own counts at a day's end (`day0` .. `day6`) or `final`."""
    counts: Counts = {}
    with gzip.open(TRUTH / f"{tag}.counts.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            user = row["user_id"]
            key = (int(user) if user is not None else None, row["biz_status"])
            counts[key] = (int(row["n"]), Decimal(row["amt"]))
    return counts


def sample_days() -> list[tuple[str, list[Path]]]:
    """The sample's files by the truth that holds once they are in: [("day0", [..]), ..]."""
    days = json.loads((TRUTH / "days.json").read_text(encoding="utf-8"))
    tags = [day.get("truth", {}).get("tag") or "final" for day in days]
    ends = [(day["end"][0], day["end"][1]) for day in days]
    found: list[tuple[str, list[Path]]] = [(tag, []) for tag in tags]
    for path in sorted(SAMPLE.glob("*.jsonl.gz")):
        with gzip.open(path, "rb") as file:
            last = json.loads(file.read().splitlines()[-1])
        name, _, number = last["position"].partition(":")
        place = next(i for i, end in enumerate(ends) if (name, int(number)) < end)
        found[place][1].append(path)
    return found


def lines_of(file: Path) -> list[bytes]:
    """Lines of a gzip file, without newlines."""
    return gzip.decompress(file.read_bytes()).split(b"\n")[:-1]


def sample_lines() -> list[bytes]:
    """Lines of the sample, in its order."""
    return [line for path in sorted(SAMPLE.glob("*.jsonl.gz")) for line in lines_of(path)]


def differing(expected: dict, got: dict) -> list[tuple[Any, Any, Any]]:
    """(key, expected, got) of every key that differs."""
    keys = expected.keys() | got.keys()
    return [
        (key, expected.get(key), got.get(key)) for key in keys if expected.get(key) != got.get(key)
    ]


def summed(daily: dict[tuple, tuple[int, Decimal]]) -> Counts:
    """Daily counts added up over the days, groups of count 0 left out."""
    totals: dict[tuple, list] = {}
    for (_, user, status), (count, amount) in daily.items():
        total = totals.setdefault((user, status), [0, Decimal(0)])
        total[0] += count
        total[1] += amount
    return {key: (count, amount) for key, (count, amount) in totals.items() if count}


def _whole(value: Decimal | int | None) -> int | None:
    return None if value is None else int(value)
