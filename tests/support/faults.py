"""Faults that are put into the code on purpose, and the tests that have to catch them.

Longer than 500 lines: it is a list.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CHANGELOG = "dwd_trade__order_changelog"
LATEST = "dwd_trade__order_latest dwd_trade__order_address_latest dwd_trade__coupon_latest"
DAYS = "dws_trade__user_status_1d"
TOTALS = "dws_trade__user_status_td dws_trade__user_coupon_td"
LINKS = "meta_order_chain_link"
BREAKS = "meta_order_chain_break"
RECONCILED = "dqc_trade__user_status_reconciliation"


@dataclass(frozen=True)
class Fault:
    """`right` stands once in the file, `wrong` is put in its place.

    Attributes:
        caught_by: models whose unit tests are asked, or arguments of pytest.
        seed: of joins and windows that are tried at random those of this seed show the fault.
    """

    name: str
    file: str
    right: str
    wrong: str
    caught_by: str
    seed: int = 26

    def put_into(self, root: Path) -> None:
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        assert text.count(self.right) == 1, f"{self.name}: not once in {self.file}"
        path.write_text(text.replace(self.right, self.wrong), encoding="utf-8")


RETRACT, LATEST_ROWS = "macros/changelog/retract_rows.sql", "macros/changelog/latest_rows.sql"
CUT, TO_DATE = "macros/daily_cut/daily_cut.sql", "macros/daily_cut/to_date.sql"
CHAIN = "macros/chain/chain_"
CLEANED, CLEAN = "macros/cleaning/cleaned.sql", "dwd_trade__order_clean"
SQL_FAULTS = (
    Fault("what is looked up isn't lower case yet", CLEANED, "given ~ '('", "'(' ", CLEAN),
    Fault("the bounds lie outside of the range", CLEANED, "('max', '<=')", "('max', '<')", CLEAN),
    Fault(
        "what is refused is called changed", CLEANED, "\"'refused'\" if", "\"'changed'\" if", CLEAN
    ),
    Fault(
        "a word that is there twice doubles its row",
        CLEANED,
        "cast(min({{ step.dictionary['to'] }}) as string)",
        "explode(collect_list({{ step.dictionary['to'] }}))",
        "dwd_trade__order_address_clean",
    ),
    Fault(
        "an unknown word is kept",
        CLEANED,
        "'coalesce(' ~ found ~ ', ruled.' ~ step.before ~ ')' if step.keeps else found",
        "'coalesce(' ~ found ~ ', ruled.' ~ step.before ~ ')'",
        "dwd_trade__order_address_clean",
    ),
    Fault(
        "an unknown word is lost",
        CLEANED,
        "'coalesce(' ~ found ~ ', ruled.' ~ step.before ~ ')' if step.keeps else found",
        "found",
        CLEAN,
    ),
    Fault(
        "rows that went are counted",
        "models/meta/meta_cleaning.sql",
        "from {{ ref('dwd_trade__order_clean') }}\n    where sign = 1",
        "from {{ ref('dwd_trade__order_clean') }}",
        "meta_cleaning",
    ),
    Fault("an insert takes away", RETRACT, "then array(1)", "then array(-1)", CHANGELOG),
    Fault("a delete adds", RETRACT, "then array(-1)\n", "then array(1)\n", CHANGELOG),
    Fault("an update only adds", RETRACT, "else %} array(-1, 1)", "else %} array(1)", CHANGELOG),
    Fault(
        "each image on the other's side",
        RETRACT,
        "when sign = 1 then {{ from_cte }}",
        "when sign = -1 then {{ from_cte }}",
        CHANGELOG,
    ),
    Fault(
        "refused messages count",
        "models/dwd/trade/dwd_trade__order_changelog.sql",
        "where reject_reason is null",
        "where true",
        CHANGELOG,
    ),
    Fault("the oldest row is the latest", LATEST_ROWS, "max_by(", "min_by(", LATEST),
    Fault(
        "the position does not order",
        LATEST_ROWS,
        "{{ from_cte }}.binlog_position,\n",
        "",
        LATEST,
    ),
    Fault(
        "the row number does not order",
        LATEST_ROWS,
        "{{ from_cte }}.row_number,\n",
        "",
        LATEST,
    ),
    Fault(
        "a deleted row is there", LATEST_ROWS, "where last_of_key.is_there", "where true", LATEST
    ),
    Fault(
        "a changed key leaves its old row",
        LATEST_ROWS,
        "else array({{ ended }}, {{ there }})",
        "else array({{ there }})",
        LATEST,
    ),
    Fault(
        "a change of nothing of interest is counted",
        f"models/dws/trade/{DAYS}.sql",
        "where {{ is_of_interest('ods_shop__order_info', count=user_status()) }}",
        "where true",
        DAYS,
    ),
    Fault(
        "a change of nothing of interest of a coupon is counted",
        "models/dws/trade/dws_trade__user_coupon_1d.sql",
        "where {{ is_of_interest('ods_shop__coupon', count=user_coupon()) }}",
        "where true",
        "dws_trade__user_coupon_1d",
    ),
    Fault("rows are counted, not signs", CUT, "'sum(sign)'", "'count(sign)'", DAYS),
    Fault("amounts have no sign", CUT, "sum(' ~ signed(sum.column)", "sum(' ~ sum.column", DAYS),
    Fault(
        "negative days are lost",
        CUT,
        "where {{ cut.changes | join(' <> 0 or ') }} <> 0",
        "where {{ cut.changes | join(' > 0 or ') }} > 0",
        DAYS,
    ),
    Fault("a day whose count is zero is lost", CUT, "' <> 0 or '", "' <> 0 and '", DAYS),
    Fault(
        "months are years",
        "macros/daily_cut/roll_up.sql",
        "'cut_month': 'month'",
        "'cut_month': 'year'",
        "dws_trade__user_status_1m",
    ),
    Fault(
        "a count below zero is lost",
        TO_DATE,
        "having sum({{ cut.sums[cut.count].change }}) <> 0",
        "having sum({{ cut.sums[cut.count].change }}) > 0",
        TOTALS,
    ),
    Fault("what is gone is the dearest", TO_DATE, "~ ' > 0)'", "~ ' >= 0)'", TOTALS),
    Fault(
        "what was found is what was left",
        f"{CHAIN}links.sql",
        "'image', steps.found",
        "'image', steps.made",
        LINKS,
    ),
    Fault(
        "the chain has no order",
        f"{CHAIN}breaks.sql",
        "order by {{ place | join(', ') }}, made is not null",
        "order by made is not null",
        BREAKS,
    ),
    Fault(
        "null differs from null",
        f"{CHAIN}breaks.sql",
        "{{ left_value }} <=> {{ found_value }}",
        "{{ left_value }} = {{ found_value }}",
        BREAKS,
    ),
    Fault(
        "a key with a null is no key of the chain",
        f"{CHAIN}breaks.sql",
        "{{ left }}.{{ column }} <=> {{ right }}.{{ column }}",
        "{{ left }}.{{ column }} = {{ right }}.{{ column }}",
        BREAKS,
    ),
    Fault(
        "a delete ends nothing",
        f"{CHAIN}breaks.sql",
        "when found is not null and previous.made is null",
        "when found is not null and previous.made is null and false",
        BREAKS,
    ),
    Fault(
        "differences cancel",
        "macros/daily_cut/reconciliation.sql",
        "sum(abs({{ name }}_got - {{ name }}_expected))",
        "sum({{ name }}_got - {{ name }}_expected)",
        RECONCILED,
    ),
    Fault(
        "a group that one side lacks is none",
        "macros/daily_cut/compared.sql",
        "[(got, 'true'), (expected, 'false')]",
        "[(got, 'true'), (got, 'false')]",
        RECONCILED,
    ),
)


LEVELS = "tests/e2e/test_corrections.py -m 'not soak'"
ADAPTER = "python_udfs/sparksession_adapter/dbt/adapters/sparksession/"
ENGINE_MACROS = "python_udfs/sparksession_adapter/dbt/include/sparksession/macros/"


FOLD_SQL, STREAMS = ADAPTER + "keyed/fold_sql.py", "tests/adapter/test_folds.py"
ZIPPERS, ZIPPER_STREAMS = ADAPTER + "keyed/zippers.py", "tests/adapter/test_zippers.py"
PARTIAL_ZIPPERS = ADAPTER + "keyed/partial_zippers.py"
PARTIAL_STREAMS = "tests/adapter/test_partial_zippers.py"
UNSEEN, COPIES = "macros/deduplication/unseen_rows.sql", "tests/adapter/test_key_filters.py -k kept"
JOINED = "macros/joins/repaired_join.sql"


JOIN_HISTORIES = "tests/adapter/test_joins.py -m 'not soak' -k every_run"
SESSION = "macros/windows/session.sql"


BELIEF_HISTORIES = "tests/adapter/test_beliefs.py -m 'not soak' -k oracle"
BELIEFS = "macros/streams/beliefs.sql"


EXTRACT_HISTORIES = "tests/adapter/test_extracts.py -m 'not soak'"
EXTRACTS = "macros/changelog/extract_changes.sql"


WINDOW_HISTORIES = "tests/adapter/test_windows.py -m 'not soak' -k every_run"


IN_WORKERS = "python_udfs/ingestion/fast/"
GUARDS = "tests/ingestion/fast -k 'guards or hostile'"
ENVELOPES = "tests/ingestion/fast/test_envelopes.py"
KEPT_LOG = "tests/ingestion/fast/test_kept_log.py"
ROW_PLACES = "tests/adapter/test_row_places.py"
# guards of the decoder in the workers, each dropped
WORKER_FAULTS = (
    Fault(
        "an escape that may be a mark is read",
        IN_WORKERS + "lines.py",
        "odd[rows_at(begin, _marks(text, backslashes))] = True",
        "pass",
        GUARDS,
    ),
    Fault(
        "a text may have more digits than a decimal holds",
        IN_WORKERS + "texts.py",
        'return rf"^-?[0-9]{{1,{whole}}}{fraction}$", _DIGITS_OF[kind.id] - places + 1',
        'return r"^-?[0-9]+(\\.[0-9]+)?$", LONGEST_NUMBER',
        GUARDS,
    ),
    Fault(
        "decimals have negative exponents",
        IN_WORKERS + "parsing.py",
        "if len(odd):",
        "if False:",
        "tests/ingestion/fast -k 'guards and exponent'",
    ),
    Fault(
        "blanks stand between tokens",
        IN_WORKERS + "lines.py",
        "odd[rows_at(begin, opening[~right])] = True",
        "pass",
        GUARDS,
    ),
    Fault(
        "a brace within a text is structure",
        IN_WORKERS + "lines.py",
        "return places[np.searchsorted(quotes, places) % 2 == 0]",
        "return places",
        GUARDS,
    ),
    Fault(
        "an escaped quote ends a text",
        IN_WORKERS + "lines.py",
        "is_quote[escapes + 1] = False",
        "pass",
        GUARDS,
    ),
    Fault(
        "a value in quotes is a number",
        IN_WORKERS + "images.py",
        "odd[row[is_declared & ~fits & (value != LETTER_N)]] = True",
        "pass",
        GUARDS,
    ),
    Fault(
        "a name in another case isn't looked at",
        IN_WORKERS + "images.py",
        "alike = layout.folded.numbers(lines.bytes, begin, length) >= 0",
        "alike = np.zeros(len(keys), bool)",
        GUARDS,
    ),
    Fault(
        "letters beyond ASCII have no case",
        IN_WORKERS + "images.py",
        "alike[key] |= known[name]",
        "pass",
        GUARDS,
    ),
    Fault(
        "an update needs no old row",
        IN_WORKERS + "images.py",
        "odd |= is_update & (old.odd | np.asarray(old.values.is_null()))",
        "odd |= is_update & old.odd",
        GUARDS,
    ),
    Fault(
        "an absent column is null",
        IN_WORKERS + "images.py",
        "odd |= has_no_value & ~data.named[number]",
        "pass",
        GUARDS,
    ),
    Fault(
        "a key may be null",
        IN_WORKERS + "images.py",
        "odd |= np.asarray(after[number].is_null()) | np.asarray(before[number].is_null())",
        "pass",
        GUARDS,
    ),
    Fault(
        "a null of the old row is taken for a column that did not change",
        IN_WORKERS + "images.py",
        "before.append(_replaced(value.typed, rows, previous.typed))",
        "before.append(pc.coalesce(_replaced(value.typed, rows, previous.typed), value.typed))",
        GUARDS,
    ),
    Fault(
        "an old value may be beyond its type",
        IN_WORKERS + "images.py",
        "odd[rows[previous.odd]] = True",
        "pass",
        GUARDS,
    ),
    Fault(
        "a delete is dated by its row in the workers",
        IN_WORKERS + "images.py",
        "day = np.where(possible & ~is_delete, cut, event)",
        "day = np.where(possible, cut, event)",
        GUARDS,
    ),
    Fault(
        "a cut value may be as far ahead as it likes",
        IN_WORKERS + "images.py",
        " & (cut <= event + layout.max_ahead)",
        "",
        GUARDS,
    ),
    Fault(
        "numbers have no bounds",
        IN_WORKERS + "values.py",
        'if extremes["min"] >= column.low and extremes["max"] <= column.high:',
        "if True:",
        GUARDS,
    ),
    Fault(
        "digits overflow",
        IN_WORKERS + "values.py",
        "pa.decimal256(digits, places) if digits + places > MAX_PRECISION else typed",
        "typed",
        GUARDS,
    ),
    Fault(
        "minus zero is zero",
        IN_WORKERS + "values.py",
        "odd = ~np.isfinite(read) | ((read == 0) & np.signbit(read))",
        "odd = ~np.isfinite(read)",
        GUARDS,
    ),
    Fault(
        "a float is a double rounded",
        IN_WORKERS + "values.py",
        "odd[longer[~_has_few_digits(np.abs(read[longer]))]] = True",
        "pass",
        GUARDS,
    ),
    Fault(
        "a time has any length",
        IN_WORKERS + "values.py",
        "odd |= there & (length > 26)",
        "pass",
        GUARDS,
    ),
    Fault(
        "a T may stand within a time",
        IN_WORKERS + "values.py",
        "(text[at + 10] != _SPACE) | ",
        "",
        GUARDS,
    ),
    Fault(
        "a date that the calendar lacks is of any form",
        IN_WORKERS + "values.py",
        "odd[zeros[no_form]], zero[zeros[no_form]] = True, False",
        "pass",
        GUARDS,
    ),
    Fault(
        "a year may be before 1000",
        IN_WORKERS + "values.py",
        "outside = (micros < EARLIEST) | (micros >= END)",
        "outside = micros >= END",
        GUARDS,
    ),
    Fault(
        "an offset changes at midnight",
        IN_WORKERS + "zones.py",
        "begins, ends = (days[first] + 1) * DAY, (days[last] - 1) * DAY",
        "begins, ends = days[first] * DAY, (days[last] + 1) * DAY",
        GUARDS,
    ),
    Fault(
        "an insert of Maxwell may have an old row",
        IN_WORKERS + "maxwell.py",
        'odd |= np.asarray(old.values.is_valid()) & ~np.asarray(pc.equal(ops, "update"))',
        "pass",
        GUARDS,
    ),
    Fault(
        "a message of Maxwell may have further objects",
        IN_WORKERS + "maxwell.py",
        "odd[parts.row[~(is_data | is_old) | ~parts.is_flat]] = True",
        "odd[parts.row[~parts.is_flat]] = True",
        GUARDS,
    ),
    Fault(
        "a name may have escapes",
        IN_WORKERS + "lines.py",
        "odd[rows_at(begin, backslashes[is_key[of_text]])] = True",
        "pass",
        GUARDS,
    ),
    Fault(
        "a line may have two objects",
        IN_WORKERS + "lines.py",
        "odd |= np.bincount(row[level == 1], minlength=count) != 2",
        "pass",
        GUARDS,
    ),
    Fault(
        "a list may begin with a number",
        IN_WORKERS + "lines.py",
        "odd[row[_odd_lists(text, brackets, row)]] = True",
        "pass",
        GUARDS,
    ),
    Fault(
        "a list may go on with a number",
        IN_WORKERS + "lines.py",
        "odd[rows_at(begin, after_texts[~_ELEMENT[text[after_texts + 2]]])] = True",
        "pass",
        GUARDS,
    ),
    Fault(
        "members that aren't read are not looked at",
        IN_WORKERS + "images.py",
        "others = np.flatnonzero(~is_whole)",
        "others = np.arange(0)",
        GUARDS,
    ),
    Fault(
        "digits of 16 are a number",
        IN_WORKERS + "texts.py",
        "if is_sign[bytes_of(texts)].all() and",
        "if",
        GUARDS,
    ),
    Fault(
        "a text that is no number is null",
        IN_WORKERS + "texts.py",
        "return read, either(odd, ~np.asarray(right))",
        "return read, odd",
        GUARDS,
    ),
    Fault(
        "a number that doesn't fit is null",
        IN_WORKERS + "texts.py",
        "return values, np.asarray(values.is_null()) & np.asarray(texts.is_valid())",
        "return values, None",
        GUARDS,
    ),
    Fault(
        "a row of Canal may have objects",
        IN_WORKERS + "canal.py",
        "is_row = (of_data | of_old) & elements.is_flat &",
        "is_row = (of_data | of_old) &",
        GUARDS,
    ),
    Fault(
        "what describes rows of Canal may have fractions",
        IN_WORKERS + "canal.py",
        "odd[_rows_with_fractions(lines)] = True",
        "pass",
        GUARDS,
    ),
    Fault(
        "a message of Canal may have other lists",
        IN_WORKERS + "canal.py",
        "odd[_rows_with_other_lists(lines, members)] = True",
        "pass",
        GUARDS,
    ),
    Fault(
        "old rows of Canal may be fewer",
        IN_WORKERS + "canal.py",
        "right &= sizes_of_old == np.where(is_update, sizes, 0)",
        "pass",
        "tests/ingestion/fast/test_guards_of_formats.py -k taken_for_those",
    ),
    Fault(
        "a label that isn't known is null",
        IN_WORKERS + "canal.py",
        "return labelled, there & np.asarray(labelled.is_null())",
        "return labelled, np.zeros(len(texts), bool)",
        GUARDS,
    ),
    Fault(
        "a message of Canal is proven in part",
        IN_WORKERS + "canal.py",
        "whole = ~np.isin(message, message[odd])",
        "whole = ~odd",
        GUARDS,
    ),
    Fault(
        "base64 may lose bits",
        IN_WORKERS + "debezium_values.py",
        "right &= (pads != 1) | (code[:, -2] & np.uint64(3) == 0)",
        "pass",
        GUARDS,
    ),
    Fault(
        "a decimal of bytes has no bounds",
        IN_WORKERS + "debezium_values.py",
        "odd |= (value >= 10**digits) | (value <= -(10**digits))",
        "pass",
        GUARDS,
    ),
    Fault(
        "a time of day has any places",
        IN_WORKERS + "debezium_values.py",
        "odd |= (np.abs(micros) > LONGEST_TIME) | (micros % 10 ** (6 - length) != 0)",
        "pass",
        GUARDS,
    ),
    Fault(
        "a time has any zone",
        IN_WORKERS + "texts.py",
        "odd = ~np.asarray(right) | (micros < EARLIEST) | (micros >= END)",
        "odd = (micros < EARLIEST) | (micros >= END)",
        GUARDS,
    ),
    Fault(
        "an event has objects in it",
        IN_WORKERS + "events.py",
        "there = np.flatnonzero(event.is_flat)",
        "there = np.arange(len(event.is_flat))",
        GUARDS,
    ),
    Fault(
        "a day has no bounds",
        IN_WORKERS + "debezium_values.py",
        "return Values(days.cast(pa.date32()), outside if outside.any() else None)",
        "return Values(days.cast(pa.date32()))",
        GUARDS,
    ),
    Fault(
        "a value that was left out is a text",
        IN_WORKERS + "debezium_values.py",
        "return Values(values, np.asarray(left_out) if pc.any(left_out).as_py() else None)",
        "return Values(values)",
        GUARDS,
    ),
    Fault(
        "an insert of Debezium may have a row before",
        IN_WORKERS + "debezium.py",
        "odd |= np.asarray(before.values.is_valid()) == is_insert",
        "pass",
        GUARDS,
    ),
    Fault(
        "a delete of Debezium may have a row after",
        IN_WORKERS + "debezium.py",
        "odd |= np.asarray(after.values.is_valid()) == is_delete",
        "pass",
        GUARDS,
    ),
    Fault(
        "a column that was absent before is null",
        IN_WORKERS + "debezium.py",
        "odd |= ~is_insert & is_null & ~before.named[number]",
        "pass",
        GUARDS,
    ),
    Fault(
        "a row before may hold the key alone",
        IN_WORKERS + "debezium.py",
        "odd |= ~is_insert & is_empty",
        "pass",
        GUARDS,
    ),
    Fault(
        "a row that is decoded twice may differ",
        "python_udfs/ingestion/typed/proven.py",
        "found = found | ~by_spark.eqNullSafe(by_workers)",
        "pass",
        "tests/ingestion/typed/test_worker_decoding.py -k otherwise",
    ),
    Fault(
        "a message that is decoded twice may have more rows",
        IN_WORKERS + "workers.py",
        "again = F.when(is_complete, F.col(AGAIN)).otherwise(F.slice(F.col(AGAIN), 1, 0))",
        "again = F.col(AGAIN)",
        "tests/ingestion/typed/test_worker_decoding.py -k otherwise",
    ),
    Fault(
        "rows that workers write are of one day",
        IN_WORKERS + "files.py",
        "pc.equal(values, value) if value.is_valid else pc.is_null(values)",
        "pc.equal(values, value)",
        "tests/ingestion/fast/test_files.py",
    ),
    Fault(
        "a message that workers write has one row",
        IN_WORKERS + "writing.py",
        'known["row_number"] = pa.array(np.arange(len(kept)) - first, pa.int64())',
        "pass",
        "tests/ingestion/typed/test_worker_decoding.py -k by_both",
    ),
    Fault(
        "a batch that is to be decoded twice is written",
        IN_WORKERS + "writing.py",
        "if not is_chosen([batch[name] for name in PLACE], twice_in):",
        "if True:",
        "tests/ingestion/typed/test_worker_decoding.py -k otherwise",
    ),
    Fault(
        "a change without a position is proven",
        IN_WORKERS + "envelopes.py",
        "right &= ~is_odd & (~is_change | (has_place & _there(number)))",
        "pass",
        ENVELOPES,
    ),
    Fault(
        "a row of a snapshot is a change",
        IN_WORKERS + "envelopes.py",
        'right = _there(op, source["db"], source["table"], file) & in_time & in_log & ~is_odd',
        'right = _there(op, source["db"], source["table"], file) & in_time & ~is_odd',
        ENVELOPES,
    ),
    Fault(
        "an update without its rows before is proven",
        IN_WORKERS + "envelopes.py",
        'right &= ~_equal(op, "update") | (old == data)',
        "pass",
        ENVELOPES,
    ),
    Fault(
        "a line of NaN is JSON",
        IN_WORKERS + "lines.py",
        "odd[rows_at(begin, places)] = True\n    longest",
        "longest",
        ENVELOPES,
    ),
    Fault(
        "an envelope that is read twice may differ",
        "python_udfs/ingestion/log/by_workers.py",
        "failed = F.when(proven.isNotNull() & reduce(or_, differs), difference())",
        "failed = F.lit(None)",
        "tests/ingestion/log/test_by_workers.py -k otherwise",
    ),
    Fault(
        "a row that the workers lost is none that differs",
        "python_udfs/ingestion/typed/proven.py",
        "lost = F.when(F.col(TWICE) & nothing, difference())",
        "lost = F.lit(None)",
        "tests/ingestion/typed/test_worker_decoding.py -k otherwise",
    ),
    Fault(
        "a line of Maxwell may have objects anywhere",
        IN_WORKERS + "counted.py",
        "return is_flat and (has_others or len(objects) == len(schema))",
        "return True",
        GUARDS,
    ),
    Fault(
        "a line may have more quotes than its members",
        IN_WORKERS + "counted.py",
        "odd |= found.odd | (quotes != 2 * (named + in_quotes + of_nulls))",
        "odd |= found.odd",
        GUARDS,
    ),
    Fault(
        "half a character is read where quotes are counted",
        IN_WORKERS + "counted.py",
        "odd |= found.odd | (quotes",
        "odd |= (quotes",
        GUARDS,
    ),
    Fault(
        "a name may have escapes where quotes are counted",
        IN_WORKERS + "counted.py",
        "odd[rows_at(found.begin, _in_names(found))] = True",
        "pass",
        GUARDS,
    ),
    Fault(
        "decimals have negative exponents where quotes are counted",
        IN_WORKERS + "counted.py",
        "if len(exponents):",
        "if False:",
        "tests/ingestion/fast -k 'guards and exponent'",
    ),
    Fault(
        "a blank before a colon hides a negative exponent",
        IN_WORKERS + "exponents.py",
        "& _BEFORE_COLON[text[place - 1]]",
        "& (text[place - 1] == QUOTE)",
        "tests/ingestion/fast -k 'guards and exponent'",
    ),
    Fault(
        "a null behind an image is of it",
        IN_WORKERS + "counted.py",
        "(begins < place) & (place < _ends(found, opens)[:, row])",
        "(begins < place)",
        GUARDS,
    ),
    Fault(
        "an object ends at a brace within a text",
        IN_WORKERS + "counted.py",
        "braces = braces[np.searchsorted(found.places, braces) % 2 == 0]  # outside of texts",
        "pass",
        GUARDS,
    ),
    Fault(
        "a null is of the image before an image that isn't found",
        IN_WORKERS + "counted.py",
        "odd[row[((opens >= 0) != there).any(axis=0)[row]]] = True",
        "pass",
        GUARDS,
    ),
    Fault(
        "a name in another case isn't looked at where quotes are counted",
        IN_WORKERS + "images.py",
        "if any(has_alike(layout, kind.type) for kind in kinds[: len(names)]):",
        "if False:",
        GUARDS,
    ),
    Fault(
        "another message may stand at a place",
        IN_WORKERS + "kept_log.py",
        "if not rows[CHECKED].equals(offsets):",
        "if False:",
        KEPT_LOG,
    ),
    Fault(
        "columns of a file are found by their names",
        IN_WORKERS + "kept_log.py",
        "self._names = [names.get(field.metadata[FIELD_ID]) for field in schema]",
        "self._names = [n if n in names.values() else None for n in schema.names]",
        KEPT_LOG,
    ),
    Fault(
        "a computed column lies in a file",
        ADAPTER + "row_places.py",
        "if any(name != of_table for name, of_table in given):",
        "if False:",
        ROW_PLACES,
    ),
    Fault(
        "files lie where a table's lie, wherever its properties put them",
        ADAPTER + "row_places.py",
        "if any(table.properties().get(name) for name in OTHERWISE):",
        "if False:",
        ROW_PLACES,
    ),
)

RUN_FAULTS = (
    Fault("as of a day is before it", TO_DATE, "('<=', level.last)", "('<', level.last)", LEVELS),
    Fault(
        "a level's first day is lost",
        TO_DATE,
        "('>=', level.first)",
        "('>', level.first)",
        LEVELS,
    ),
    Fault(
        "a change sent again counts again",
        "python_udfs/ingestion/typed/duplicates.py",
        'new = new.join(whole.select(*COORDINATES), COORDINATES, "left_anti")',
        "pass",
        LEVELS,
    ),
    Fault(
        "the batch named first counts",
        "python_udfs/ingestion/typed/duplicates.py",
        'F.desc("rank")',
        'F.asc("rank")',
        LEVELS,
    ),
    Fault(
        "a delete is dated by its row",
        "python_udfs/ingestion/typed/business_date.py",
        '(op != "delete") & possible',
        "possible",
        LEVELS,
    ),
    Fault(
        "an old null is taken for absent",
        "python_udfs/ingestion/formats/maxwell.py",
        'F.when(was_old, value("old", name)).otherwise(after(name))',
        'F.coalesce(value("old", name), after(name))',
        "tests/ingestion/formats/test_maxwell_images.py",
    ),
    Fault(
        "only appended days are counted again",
        ENGINE_MACROS + "strategies/get_incremental_replace_partitions_sql.sql",
        "replace where {{ predicate if predicate is not none else 'true' }}",
        "replace where false",
        LEVELS,
    ),
    Fault(
        "a key with a null is no key of a merge",
        ENGINE_MACROS + "materializations/incremental.sql",
        "dbt_internal_source.{{ key }} <=> dbt_internal_dest.{{ key }}",
        "dbt_internal_source.{{ key }} = dbt_internal_dest.{{ key }}",
        "tests/adapter/test_incremental.py",
    ),
    Fault(
        "a fold keeps the first row",
        FOLD_SQL,
        'f"max(case when {group',
        'f"min(case when {group',
        STREAMS,
    ),
    Fault(
        "equal sequences go by their contents",
        ADAPTER + "keyed/groups.py",
        "return (*self.sequence, TIE + self.name)",
        "return self.sequence",
        STREAMS,
    ),
    Fault(
        "a removed row is shown",
        FOLD_SQL,
        'f"not coalesce({quoted(UPSERT + group.name)}, true)"',
        '"false"',
        STREAMS,
    ),
    Fault(
        "what a sum takes back it adds",
        FOLD_SQL,
        "if({self._is_upsert}, {wide}, -{wide})",
        "{wide}",
        STREAMS,
    ),
    Fault(
        "a value from before a delete comes back",
        FOLD_SQL,
        "{quoted(last)}.place >= {deleted}",
        "true",
        STREAMS,
    ),
    Fault(
        "a delete that is ignored makes a row",
        FOLD_SQL,
        "if self._drops_deletes() else query",
        "if False else query",
        STREAMS,
    ),
    Fault(
        "a tombstone takes a sum with it",
        FOLD_SQL,
        "for name in self.aggregates if not self._group_of(name).order",
        "for name in ()",
        STREAMS,
    ),
    Fault(
        "a time ahead of the clock ends tombstones",
        FOLD_SQL,
        "(select least(max({time}), {now}) from {runs})",
        "(select max({time}) from {runs})",
        STREAMS,
    ),
    Fault(
        "two runs are read as one",
        ENGINE_MACROS + "materializations/folded.sql",
        "adapter.keyed.run_count(model) == 1",
        "adapter.keyed.run_count(model) == 0",
        "tests/adapter/test_folded_models.py",
    ),
    Fault(
        "the view names columns that are gone",
        ENGINE_MACROS + "materializations/folded.sql",
        "changed.gone or (",
        "(",
        "tests/adapter/test_folded_models.py",
    ),
    Fault(
        "a deleted address stays with its order",
        "models/dwd/trade/dwd_trade__order_wide.sql",
        "'columns': ['start_city_name', 'end_city_name'],\n                    "
        "'on_delete': 'retract'",
        "'columns': ['start_city_name', 'end_city_name'],\n                    "
        "'on_delete': 'ignore'",
        "tests/e2e/test_random_histories.py -m soak -k join_of_what_has_come",
    ),
    Fault(
        "a row that stayed as it was is emitted",
        ADAPTER + "reading/retract_sql.py",
        'f"not ({same})"',
        '"true"',
        "tests/adapter/test_changes.py -m 'not soak'",
    ),
    Fault(
        "an upsert stays where a delete of its place is known",
        ADAPTER + "keyed/zipper_places.py",
        '"+U": 1, "-D": 2}',
        '"+U": 2, "-D": 1}',
        ZIPPER_STREAMS,
    ),
    Fault(
        "a change counts from its own time, though the clock stepped back",
        ZIPPERS,
        'f"rows between unbounded preceding and current row) as {quoted(AT)}',
        'f"rows between current row and current row) as {quoted(AT)}',
        ZIPPER_STREAMS,
    ),
    Fault(
        "of two changes at one time both count",
        ZIPPERS,
        'f"where {quoted(NEXT)} is null or {quoted(NEXT)} > {quoted(AT)}"',
        '"where true"',
        ZIPPER_STREAMS,
    ),
    Fault(
        "what isn't tracked begins a version",
        ZIPPERS,
        "if self.tracked is None or name in self.tracked]",
        "]",
        ZIPPER_STREAMS,
    ),
    Fault(
        "a column that a change doesn't name loses its value",
        PARTIAL_ZIPPERS,
        'f"last(if({self._knows(name)}, {_wrapped(name)}, null), true) over {frame}"',
        'f"last({_wrapped(name)}, true) over {frame}"',
        PARTIAL_STREAMS,
    ),
    Fault(
        "a null that a change names gives no value",
        PARTIAL_ZIPPERS,
        "if self._ignores_null(column):",
        "if True:",
        PARTIAL_STREAMS,
    ),
    Fault(
        "what was known before a delete is known after it",
        PARTIAL_ZIPPERS,
        'f"sum(if({quoted(KIND)} = {UPSERT_RANK}, 0, 1)) over ({window} "',
        'f"sum(0) over ({window} "',
        PARTIAL_STREAMS,
    ),
    Fault(
        "a group's delete ends no version",
        PARTIAL_ZIPPERS,
        "if group.on_delete == REMOVE_ROW",
        "if False",
        PARTIAL_STREAMS,
    ),
    Fault(
        "changes outside of the range go too",
        "python_udfs/sparksession_adapter/dbt/include/sparksession/macros/materializations/"
        "folded.sql",
        "and (\n                {{ range.condition }}",
        "and (\n                true",
        "tests/adapter/test_zipper_models.py -k range",
    ),
    Fault(
        "what a right row no longer matches stays",
        JOINED,
        "else _touching_rows(join, changed) }}",
        "else _touching_rows(join, '(select * from ' ~ changed ~ ' where sign = 1)') }}",
        JOIN_HISTORIES,
    ),
    Fault(
        "pairs that vanished stay",
        JOINED,
        "from changed_pairs",
        "from changed_pairs where row_kind not in ('-U', '-D')",
        JOIN_HISTORIES,
    ),
    Fault(
        "what a stream's row was before it stays",
        JOINED,
        "_rows_of_changed_keys(join.right, right[1], join.wanted_right_keys, keeps)",
        "right[1]",
        JOIN_HISTORIES,
        seed=46,
    ),
    Fault(
        "the greatest row of a stream counts, not the last",
        JOINED,
        "struct({{ side.sequence | join(', ') }}) as place,",
        "",
        JOIN_HISTORIES,
        seed=46,
    ),
    Fault(
        "a version's end still counts",
        ADAPTER + "declared/join_bounds.py",
        "{time} < right_row.{end})",
        "{time} <= right_row.{end})",
        JOIN_HISTORIES,
    ),
    Fault(
        "what ended is compared with what is believed",
        BELIEFS,
        "where known_to is null",
        "where true",
        BELIEF_HISTORIES,
        seed=5,
    ),
    Fault(
        "a version that is gone is still believed",
        BELIEFS,
        "not (old_row <=> new_row))",
        "not (old_row <=> new_row)) and new_row is not null",
        BELIEF_HISTORIES,
    ),
    Fault(
        "beliefs go when their zipper is rebuilt",
        "python_udfs/sparksession_adapter/dbt/include/sparksession/macros/materializations/"
        "folded.sql",
        " and not news.tolerates_replay",
        "",
        BELIEF_HISTORIES,
        seed=5,
    ),
    Fault(
        "a key that an extract lacks stays",
        EXTRACTS,
        "and not (stated.extract__earlier_row <=> stated.extract__row)",
        "and not (stated.extract__earlier_row <=> stated.extract__row)\n"
        "            and stated.extract__row is not null",
        EXTRACT_HISTORIES,
    ),
    Fault(
        "the extract behind a late one isn't compared again",
        EXTRACTS,
        "or coalesce(lag(extract__is_new) over (order by extract__place), false)",
        "or false",
        EXTRACT_HISTORIES,
    ),
    Fault(
        "what the log changed before an extract stays",
        EXTRACTS,
        "bool_or(extract__is_mark) as extract__is_changed",
        "false as extract__is_changed",
        EXTRACT_HISTORIES,
    ),
    Fault(
        "a late change outlives the extract behind it",
        EXTRACTS,
        "_keys_changed(plan, inputs.new_log, 'true', in_order)",
        "_keys_changed(plan, inputs.new_log, 'true', touched)",
        EXTRACT_HISTORIES,
    ),
    Fault(
        "a cut extract is taken for whole",
        EXTRACTS,
        "when coalesce(counted.row_count, 0) <> in_order.{{ plan.row_count }}",
        "when coalesce(counted.row_count, 0) > in_order.{{ plan.row_count }}",
        "tests/adapter/test_extract_refusals.py -k cut",
    ),
    Fault(
        "rows that lie just the gap apart are of two sessions",
        SESSION,
        "window__at - {{ window.gap }} > lag(",
        "window__at - {{ window.gap }} >= lag(",
        WINDOW_HISTORIES,
        seed=24,  # with the sessions of all rows, of which many lie the gap apart
    ),
    Fault(
        "sessions of a null key are nobody's",
        SESSION,
        "{{ left }}.{{ name }} <=> {{ right }}.{{ name }}",
        "{{ left }}.{{ name }} = {{ right }}.{{ name }}",
        WINDOW_HISTORIES,
    ),
    Fault(
        "a row that a model leaves out isn't joined to a late row before it",
        SESSION,
        "and spans.last_at + {{ window.gap }}",
        "and spans.last_at",
        "tests/adapter/test_windows.py -k leaves_out",
    ),
    Fault(
        "what a touched window was before stays",
        ENGINE_MACROS + "strategies/get_incremental_replace_windows_sql.sql",
        "left anti join {{ touched.view }} as",
        "left anti join (select * from {{ touched.view }} limit 0) as",
        WINDOW_HISTORIES,
    ),
    Fault(
        "a change of nothing is emitted",
        "macros/streams/upsert_stream.sql",
        "not (old_row <=> new_row)",
        "true",
        "tests/adapter/test_streams.py -m 'not soak' -k given_once",
    ),
    Fault(
        "a change of a null key is emitted again",
        "macros/streams/upsert_stream.sql",
        "held.{{ name }} <=> latest.{{ name }}",
        "held.{{ name }} = latest.{{ name }}",
        "tests/adapter/test_streams.py -m 'not soak'",
    ),
    Fault(
        "a null key is always new",
        UNSEEN,
        "{{ left }}.{{ name }} <=> {{ right }}.{{ name }}",
        "{{ left }}.{{ name }} = {{ right }}.{{ name }}",
        COPIES,
    ),
    Fault(
        "the filter's word is taken",
        UNSEEN,
        "{%- set seen = adapter.ranges.materialize_once(model, 'seen', seen_sql) -%}",
        "{%- set seen = suspects -%}",
        COPIES,
    ),
    Fault(
        "rows behind the filter are forgotten",
        UNSEEN,
        "{%- if filter.behind %}",
        "{%- if false %}",
        COPIES,
    ),
)
