"""An independent answer to "what should the warehouse hold?", in plain Python.

The warehouse is checked against this module, so it shares nothing with it: standard library
only, no import from the project, and one straightforward pass over the log instead of anything
clever. It knows one source table shape: orders counted by (user_id, biz_status) with the sum of
their amount.

Vocabulary
    image        dict of column name -> value as the log wrote it: int, Decimal (exact, never
                 float), str or None.
    position     (binlog file number, byte offset in that file).
    change       one row event of the source: an insert, an update or a delete.
    cut date     the business day a change is booked on.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

Image = dict[str, Any]
Key = tuple[Any, ...]
Group = tuple[int | None, str | None]
Counts = dict[Group, tuple[int, Decimal]]

ROW_OPERATIONS = ("insert", "update", "delete")

# The last row of a transaction carries no xoffset, so its true ordinal is not in the message.
# It only has to sort after every other row of the transaction.
LAST_ROW_NUMBER = 2**31 - 1

EPOCH = datetime(1970, 1, 1)
FIRST_CREDIBLE_TIME = datetime(1970, 1, 2)
DATETIME_TEXT = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(?:\.\d{1,6})?", re.ASCII)


@dataclass(frozen=True)
class Change:
    """One row event of the source table.

    key: values of the key columns after the change (of the deleted row, for a delete).
    op: 'insert', 'update' or 'delete'.
    before: full image before the change; None for an insert.
    after: full image after the change; None for a delete.
    ts: second of the statement, seconds since 1970-01-01 UTC. May step back along the log.
    file, file_number, pos: binlog file name, its number, byte offset of the rows event.
    row_number: xoffset, or LAST_ROW_NUMBER for the row that ends its transaction.
    commit: True on the last row of a transaction.
    xid: transaction id; None where the producer wrote none.
    xoffset: ordinal of the row in its transaction, from 0; None on the last row.
    before_key: values of the key columns before the change; None for an insert.
    """

    key: Key
    op: str
    before: Image | None
    after: Image | None
    ts: int
    file: str
    file_number: int
    pos: int
    row_number: int
    commit: bool
    xid: int | None
    xoffset: int | None
    before_key: Key | None

    @property
    def position(self) -> tuple[int, int]:
        """(file number, byte offset): comparable, unlike the text "file:offset"."""
        return self.file_number, self.pos

    @property
    def order(self) -> tuple[int, int, int]:
        """Total order of the changes of one log: (file number, byte offset, row number)."""
        return self.file_number, self.pos, self.row_number

    @property
    def identity(self) -> tuple[str, int, int | None, bool]:
        """What makes two messages the same change: (file, byte offset, xoffset, commit)."""
        return self.file, self.pos, self.xoffset, self.commit


def file_number_of(file: str) -> int:
    """Return the number a binlog file name ends in: 'bin.000007' -> 7.

    Raises ValueError when the name has no numeric suffix.
    """
    return int(file.rsplit(".", 1)[1])


def read_messages(
    lines: Iterable[bytes],
    *,
    database: str = "shop",
    table: str = "order_info",
    key_columns: tuple[str, ...] = ("order_id",),
    skip_malformed: bool = False,
) -> list[Change]:
    """Decode the Maxwell messages of one table.

    lines: one JSON message each, with or without the line feed, in any order, repeated at will.
    Returns the changes in log order, each once. DDL, bootstrap rows and other tables are left
    out.

    Raises ValueError when a line is not one JSON object (unless skip_malformed), when an update
    came without its before image, or when two messages claim one identity with different
    contents: an oracle must not guess.
    """
    changes: dict[tuple, Change] = {}
    for number, line in enumerate(lines):
        try:
            message = json.loads(line, parse_float=Decimal)
            if not isinstance(message, dict):
                raise ValueError("not a JSON object")
        except ValueError as error:
            if skip_malformed:
                continue
            raise ValueError(f"line {number} is not a message: {error}") from error
        if message.get("database") != database or message.get("table") != table:
            continue
        if message.get("type") not in ROW_OPERATIONS:
            continue
        change = _decode_row(message, key_columns)
        known = changes.setdefault(change.identity, change)
        if known != change:
            raise ValueError(f"line {number}: another change already has {change.identity}")
    return sorted(changes.values(), key=lambda change: change.order)


def corrected(*layers: Iterable[Change]) -> list[Change]:
    """Return the changes of all layers in log order; of a change in several, the last layer's."""
    changes: dict[tuple, Change] = {}
    for layer in layers:
        changes.update({change.identity: change for change in layer})
    return sorted(changes.values(), key=lambda change: change.order)


def of_later_log(changes: Iterable[Change]) -> list[Change]:
    """Return changes of a binlog that the server restarted: all are behind those of the first."""
    later = 10**10  # a file number is below 2^31
    return [replace(change, file_number=change.file_number + later) for change in changes]


def _decode_row(message: Mapping[str, Any], key_columns: tuple[str, ...]) -> Change:
    """Build the Change of one row message. Raises ValueError when its images can't be
    determined."""
    file, _, pos = message["position"].rpartition(":")
    op, data = message["type"], message["data"]
    before: Image | None = None
    after: Image | None = None
    if op == "insert":
        after = data
    elif op == "delete":
        before = data
    else:
        if "old" not in message:
            raise ValueError(f"update at {message['position']} has no before image")
        after = data
        # A column absent from `old` did not change; one that is there as null was null.
        before = {**data, **message["old"]}
    commit = message.get("commit", False)
    xoffset = message.get("xoffset")
    shown = after if after is not None else before
    return Change(
        key=tuple(shown[column] for column in key_columns),
        op=op,
        before=before,
        after=after,
        ts=message["ts"],
        file=file,
        file_number=file_number_of(file),
        pos=int(pos),
        row_number=LAST_ROW_NUMBER if commit else (xoffset or 0),
        commit=commit,
        xid=message.get("xid"),
        xoffset=xoffset,
        before_key=None if before is None else tuple(before[column] for column in key_columns),
    )


def changes_before(changes: Iterable[Change], file: str, pos: int) -> list[Change]:
    """Return the changes whose position is less than byte offset `pos` of binlog `file`."""
    end = file_number_of(file), pos
    return [change for change in changes if change.position < end]


def cut_date(
    change: Change,
    zone_offset_hours: int = 8,
    max_ahead_hours: int = 24,
    cut_column: str = "update_time",
) -> date:
    """Return the business day that both images of a change are booked on.

    An insert or update goes by the day of its after image's `cut_column`, a datetime text in
    business-local time, provided that it is a real time, not before 1970-01-02, and not more
    than `max_ahead_hours` after the binlog time. Otherwise, and for every delete (the time in a
    deleted row is that of its last update), by the day of the binlog time in the business zone.
    """
    binlog_time = EPOCH + timedelta(seconds=change.ts, hours=zone_offset_hours)
    if change.after is None:
        return binlog_time.date()
    stated = parse_datetime(change.after.get(cut_column))
    if stated is None or stated < FIRST_CREDIBLE_TIME:
        return binlog_time.date()
    if stated - binlog_time > timedelta(hours=max_ahead_hours):
        return binlog_time.date()
    return stated.date()


def parse_datetime(text: Any) -> datetime | None:
    """Parse "YYYY-MM-DD HH:MM:SS[.ffffff]"; None for anything else, zero dates included."""
    if not isinstance(text, str) or not DATETIME_TEXT.fullmatch(text):
        return None
    try:
        # Year, month or day zero is out of range here, which is how zero dates fall out.
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def retract_rows(
    changes: Iterable[Change], zone_offset_hours: int = 8, max_ahead_hours: int = 24
) -> list[dict[str, Any]]:
    """Expand changes into signed rows: +I for an insert, -U and +U for an update, -D.

    Returns one dict per row, in log order and a -U before its +U, with the keys row_kind, sign
    (+1 or -1), key (of this image), image, cut_date, op, ts, file, file_number, pos,
    row_number, commit, xid.
    """
    rows = []
    for change in sorted(changes, key=lambda change: change.order):
        booked_on = cut_date(change, zone_offset_hours, max_ahead_hours)
        images = []
        if change.before is not None:
            kind = "-D" if change.op == "delete" else "-U"
            images.append((kind, -1, change.before_key, change.before))
        if change.after is not None:
            kind = "+I" if change.op == "insert" else "+U"
            images.append((kind, 1, change.key, change.after))
        for row_kind, sign, key, image in images:
            rows.append(
                {
                    "row_kind": row_kind,
                    "sign": sign,
                    "key": key,
                    "image": image,
                    "cut_date": booked_on,
                    "op": change.op,
                    "ts": change.ts,
                    "file": change.file,
                    "file_number": change.file_number,
                    "pos": change.pos,
                    "row_number": change.row_number,
                    "commit": change.commit,
                    "xid": change.xid,
                }
            )
    return rows


def group_of(image: Mapping[str, Any]) -> Group:
    """Return (user_id, biz_status) of an image. None is a value of its own in either place."""
    return image["user_id"], image["biz_status"]


def daily_counts(
    changes: Iterable[Change], zone_offset_hours: int = 8, max_ahead_hours: int = 24
) -> dict[tuple[date, int | None, str | None], tuple[int, Decimal]]:
    """Return the net change of each business day.

    (cut_date, user_id, biz_status) -> (number of orders, sum of amount); both may be negative.
    Entries where both are zero are left out.
    """
    sums = defaultdict(lambda: (0, Decimal(0)))
    for row in retract_rows(changes, zone_offset_hours, max_ahead_hours):
        entry = (row["cut_date"], *group_of(row["image"]))
        count, amount = sums[entry]
        sums[entry] = (count + row["sign"], amount + row["sign"] * _amount(row["image"]))
    return {entry: total for entry, total in sums.items() if total[0] or total[1]}


def counts_to_date(
    changes: Iterable[Change],
    as_of: date | None = None,
    zone_offset_hours: int = 8,
    max_ahead_hours: int = 24,
) -> Counts:
    """Return the totals of everything booked up to and including the day `as_of`.

    (user_id, biz_status) -> (number of orders, sum of amount), without the entries whose number
    is zero. as_of None takes every change; then no cut date plays any part. As of a day in
    mid-history a number can be negative: a change booked on an earlier day than the insert it
    follows (a clock that stepped back) takes the row away before it came.
    """
    sums = defaultdict(lambda: (0, Decimal(0)))
    for row in retract_rows(changes, zone_offset_hours, max_ahead_hours):
        if as_of is not None and row["cut_date"] > as_of:
            continue
        group = group_of(row["image"])
        count, amount = sums[group]
        sums[group] = (count + row["sign"], amount + row["sign"] * _amount(row["image"]))
    return {group: total for group, total in sums.items() if total[0]}


def replay(changes: Iterable[Change]) -> dict[Key, Image]:
    """Return the rows the source table holds after the changes: key -> latest image."""
    rows: dict[Key, Image] = {}
    for change in sorted(changes, key=lambda change: change.order):
        if change.before_key is not None:
            rows.pop(change.before_key, None)
        if change.after is not None:
            rows[change.key] = change.after
    return rows


@dataclass(frozen=True)
class Break:
    """A change that didn't find what the change before it, of the same key, had left.

    kind: 'insert_on_existing'; 'update_of_unknown', 'delete_of_unknown' where nothing is known of
        the key before; 'update_of_deleted', 'delete_of_deleted'; 'image_differs'.
    columns: names of the columns that differ; of an image that differs only.
    previous: (op, order, cut date) of the change before it; None where there is none.
    change: the same of the change itself.
    """

    key: Key
    kind: str
    columns: tuple[str, ...]
    previous: tuple[str, tuple[int, int, int], date] | None
    change: tuple[str, tuple[int, int, int], date]


def chain_breaks(changes: Iterable[Change]) -> set[Break]:
    """Return where the chain of the rows' images is broken, key by key in log order.

    An update of the key takes the row away from the old key and gives it to the new key.
    """
    left: dict[Key, tuple[Change, Image | None]] = {}
    breaks = set()
    for change in sorted(changes, key=lambda change: change.order):
        steps: list[tuple[Key, Image | None, Image | None]]
        if change.before_key == change.key or change.op != "update":
            steps = [(change.key, change.before, change.after)]
        else:
            steps = [(change.before_key, change.before, None), (change.key, None, change.after)]
        for key, found, made in steps:
            before, image = left.get(key, (None, None))
            kind, columns = _judge(change.op, found, image, is_known=before is not None)
            if kind:
                previous = _mark(before) if before else None
                breaks.add(Break(key, kind, columns, previous, _mark(change)))
            left[key] = (change, made)
    return breaks


def _judge(
    op: str, found: Image | None, image: Image | None, is_known: bool
) -> tuple[str, tuple[str, ...]]:
    """Return the kind of break and the columns that differ; '' and none for no break."""
    if found is None:
        return ("insert_on_existing" if image is not None else ""), ()
    if not is_known:
        return f"{op}_of_unknown", ()
    if image is None:
        return f"{op}_of_deleted", ()
    columns = tuple(name for name in found if found[name] != image[name])
    return ("image_differs" if columns else ""), columns


def _mark(change: Change) -> tuple[str, tuple[int, int, int], date]:
    return change.op, change.order, cut_date(change)


def count_rows(images: Iterable[Mapping[str, Any]]) -> Counts:
    """Count a whole table: (user_id, biz_status) -> (number of rows, sum of amount)."""
    sums = defaultdict(lambda: (0, Decimal(0)))
    for image in images:
        count, amount = sums[group_of(image)]
        sums[group_of(image)] = (count + 1, amount + _amount(image))
    return dict(sums)


def _amount(image: Mapping[str, Any]) -> Decimal:
    """Return the amount of an image, exact, even where the log wrote it without decimals."""
    return Decimal(image["amount"])
