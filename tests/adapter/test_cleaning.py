"""Cleaning rules in YAML: random rows and rules against plain Python; what wrong rules get."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from copy import deepcopy
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
import yaml

from tests.support.cleaning_oracle import WHITE_SPACE, clean_row
from tests.support.dbt_project import REPO, DbtProject

MACRO = "macros/cleaning/cleaned.sql"
ROWS, CONFIGS = 300, 8
COLUMNS = ["id", "text_a", "text_b", "number", "day"]
WORDS = [
    "paid",
    "o'brien",
    'say "hi"',
    "c:\\path",
    "zürich",
    "中文",
    "n/a",
    "-",
    "{{ x }}",
    "two\nlines",
]
FIRST_DAY = date(2026, 3, 1)
CLEAN = f"""
{{{{ config(materialized='view', meta={{'row_wise': true}}) }}}}

with

raw as (
    select {", ".join(COLUMNS)} from {{{{ source('src', 'raw') }}}}
),

word as (
    select reported, meant from {{{{ ref('word') }}}}
),

cleaned as (
    {{{{ cleaned(model, from_cte='raw', columns={COLUMNS}) }}}}
)

select * from cleaned
"""
TAKEN = """
{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}
select * from {{ new_rows(ref('clean_0')) }}
"""
EVERY_RULE = {
    "text_a": {
        "dictionary": {"seed": "word", "from": "reported", "to": "meant"},
        "null_like": ["", "n/a"],
        "case": "lower",
        "trim": True,
    },
    "number": {"range": {"min": 0, "max": 99.5}, "null_like": [7]},
    "day": {"range": {"max": FIRST_DAY + timedelta(5)}},
}


# ---- random rows and rules -------------------------------------------------------------------


def random_text(rng: random.Random) -> str | None:
    word = rng.choice([*WORDS, "", "unknown", None])
    if word is None:
        return None
    padding = ["".join(rng.choices(WHITE_SPACE, k=rng.choice([0, 0, 1, 2]))) for _ in range(2)]
    return padding[0] + rng.choice([str, str.lower, str.upper, str.title])(word) + padding[1]


def random_row(rng: random.Random, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "text_a": random_text(rng),
        "text_b": random_text(rng),
        "number": rng.choice(
            [
                None,
                Decimal("7.00"),
                Decimal("0.00"),
                Decimal(rng.randint(-20_000, 20_000)).scaleb(-2),
            ]
        ),
        "day": rng.choice([None, FIRST_DAY + timedelta(rng.randint(0, 9))]),
    }


def random_range(rng: random.Random, values: list[Any]) -> dict[str, Any]:
    low, high = sorted(rng.sample(values, 2))
    return rng.choice([{"min": low}, {"max": high}, {"max": high, "min": low}])


def random_rules(rng: random.Random) -> dict[str, dict[str, Any]]:
    """Rules of some of the columns, each in any order."""
    rules: dict[str, dict[str, Any]] = {}
    for column in ("text_a", "text_b"):
        given: dict[str, Any] = {
            "trim": rng.random() < 0.7,
            "case": rng.choice(["lower", "upper"]),
            "dictionary": {
                "seed": "word",
                "from": "reported",
                "to": "meant",
                "otherwise": rng.choice(["keep", "refuse"]),
            },
        }
        kept = {key: given[key] for key in rng.sample(list(given), rng.randint(0, len(given)))}
        shape = getattr(str, kept.get("case", "lower"))
        kept["null_like"] = [shape(word) for word in rng.sample(["", "-", "n/a", "paid"], 2)]
        rules[column] = {key: kept[key] for key in rng.sample(list(kept), len(kept))}
    numbers = [-100, -0.5, 0, 7, 12.25, 100]
    rules["number"] = {"range": random_range(rng, numbers)}
    if rng.random() < 0.5:
        rules["number"]["null_like"] = rng.sample(numbers, 2)
    rules["day"] = {"range": random_range(rng, [FIRST_DAY + timedelta(day) for day in range(9)])}
    return {column: rules[column] for column in rng.sample(list(rules), rng.randint(1, 4))}


def as_yaml(rules: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The rules as the columns of a model; dates are written as texts."""
    written = deepcopy(rules)
    for given in filter(lambda item: isinstance(item, dict), written.values()):
        bounds = given.get("range", {})
        for bound, value in bounds.items():
            bounds[bound] = str(value) if isinstance(value, date) else value
    return [
        {"name": name, "config": {"meta": {"cleaning": given}}} for name, given in written.items()
    ]


def as_values(rules: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rules with numbers as the column holds them, for the oracle."""
    exact = deepcopy(rules)
    number = exact.get("number", {})
    for bound, value in number.get("range", {}).items():
        number["range"][bound] = Decimal(str(value))
    if "null_like" in number:
        number["null_like"] = [Decimal(str(value)) for value in number["null_like"]]
    return exact


# ---- the project -----------------------------------------------------------------------------


class Cleaning:
    """A project of cleaned views over random rows, and an incremental reader of the first view."""

    def __init__(self, make_project: Callable[..., DbtProject], rng: random.Random) -> None:
        self.rows = [random_row(rng, number) for number in range(ROWS)]
        self.rules = [EVERY_RULE, *(random_rules(rng) for _ in range(CONFIGS - 1))]
        self.meanings: dict[str, str | None] = {
            word: rng.choice([word, word.upper(), "other", None]) for word in WORDS[:-2]
        }
        models = [
            {"name": f"clean_{number}", "columns": as_yaml(rules)}
            for number, rules in enumerate(self.rules)
        ]
        sources = [{"name": "src", "tables": [{"name": "raw"}]}]
        texts = {"reported": "string", "meant": "string"}
        seeds = [{"name": "word", "config": {"column_types": texts}}]
        described = {"models": models, "sources": sources, "seeds": seeds}
        self.project = make_project(
            {
                MACRO: (REPO / MACRO).read_text(encoding="utf-8"),
                "models/models.yml": yaml.safe_dump(described, sort_keys=False),
                "models/taken.sql": TAKEN,
                **{f"models/clean_{number}.sql": CLEAN for number in range(CONFIGS)},
            }
        )
        (self.project.root / "seeds").mkdir()
        self.write_seed()
        self.project.query("create namespace if not exists src")
        self.project.query(
            "create table src.raw (id int, text_a string, text_b string, "
            "number decimal(12,2), day date) using iceberg"
        )

    def write_seed(self) -> None:
        written = io.StringIO()
        lines = csv.writer(written, quoting=csv.QUOTE_ALL)
        lines.writerow(["reported", "meant"])
        lines.writerows([meaning, meant or ""] for meaning, meant in self.meanings.items())
        (self.project.root / "seeds" / "word.csv").write_text(written.getvalue(), "utf-8")

    def insert(self, rows: list[dict[str, Any]]) -> None:
        file = self.project.root / "rows.jsonl"
        file.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows), "utf-8")
        types = "id int, text_a string, text_b string, number string, day string"
        self.project.query(
            "insert into src.raw select json.id, json.text_a, json.text_b, "
            "cast(json.number as decimal(12,2)), cast(json.day as date) "
            f"from (select from_json(value, '{types}') as json from text.`{file}`)"
        )

    def compare(self, table: str, number: int, count: int = ROWS) -> int:
        """Compare the first rows of a table with those that rules make; return what was given."""
        known = {meaning: meant for meaning, meant in self.meanings.items() if meant is not None}
        rules = as_values(self.rules[number])
        expected = [clean_row(row, rules, {"word": known}) for row in self.rows[:count]]
        got = self.project.query(f"select * from dw.{table} order by id")
        assert len(got) == count
        wrong = [(item, other) for item, other in zip(got, expected, strict=True) if item != other]
        assert not wrong, f"{table}: {len(wrong)} rows differ, e.g. {wrong[0]} by {rules}"
        return sum(len(row["cleaning"]) for row in got)


@pytest.mark.in_turn
def test_random_rows_are_cleaned_as_plain_python_does_it(
    make_project: Callable[..., DbtProject],
) -> None:
    """Also in two batches, and after the dictionary changed."""
    seed = random.SystemRandom().randint(0, 10**9)
    print(f"seed {seed}")
    cleaning = Cleaning(make_project, random.Random(seed))
    project, half = cleaning.project, ROWS // 2

    cleaning.insert(cleaning.rows[:half])
    project.run("build")
    cleaning.compare("taken", 0, half)

    cleaning.insert(cleaning.rows[half:])
    outcome = project.run("run", "--select", "taken")
    cleaning.compare("taken", 0)
    # the new rows, and the whole dictionary for them
    rows_read = outcome.results["taken"].adapter_response["code"]
    assert int(rows_read) == ROWS - half + len(cleaning.meanings)
    reported = [cleaning.compare(f"clean_{number}", number) for number in range(CONFIGS)]
    print(
        f"{ROWS} rows by {CONFIGS} configs: {sum(reported)} outcomes of rules are those of Python"
    )
    assert sum(reported) > ROWS

    cleaning.meanings |= {"paid": "PAID in full", WORDS[-1]: "lines"}
    cleaning.write_seed()
    project.run("build", "--select", "word", "taken")
    cleaning.compare("taken", 0)
    assert project.run("run", "--select", "taken").results["taken"].message == "nothing new"


# ---- wrong rules -----------------------------------------------------------------------------

WRONG = {
    "text_a": {"trimm": True, "case": "title", "trim": "yes"},
    "text_b": {"trim": True, "case": "lower", "null_like": ["N/A", True]},
    "number": {"range": {"min": 5, "max": 1}, "case": "lower"},
    "day": {"range": {"min": "yesterday", "until": 3}},
    "id": {"dictionary": {"seed": "world", "from": "a b", "too": "x", "otherwise": "drop"}},
    "none_such": {"range": {"min": "yesterday", "max": "2026-03-01"}},
    "bare": True,
    "empty": {"dictionary": None},
}
EXPECTED_TEXTS = (
    "cleaned: rules of wrong:",
    "text_a: unknown rule trimm; there are trim, case, null_like, range, dictionary",
    "text_a: case must be lower or upper, got title",
    "text_a: trim must be true or false, got yes",
    "text_b: null_like 'N/A' never matches, as the rules before it make it 'n/a'",
    "text_b: null_like must have texts (in quotes) or numbers, got True",
    "number: min of range, 5, is above its max, 1",
    "number: case is for texts, range of numbers is for numbers: cast the column in the CTE",
    "day: range must be a mapping of min, max or both, got {'min': 'yesterday', 'until': 3}",
    "id: unknown key too of dictionary; there are seed, from, to, otherwise",
    "id: the model does not read the seed world; add a CTE world as (select .. from",
    "id: from of dictionary must be the name of a column of the seed, got a b",
    "id: to of dictionary must be the name of a column of the seed, got None",
    "id: otherwise of dictionary must be keep or refuse, got drop",
    "none_such: has rules, but is none of columns",
    "none_such: min of range must be a number, or a date or time as '2026-03-01' or",
    "bare: rules must be a mapping of trim, case, null_like, range, dictionary, got True",
    "empty: dictionary must be a mapping of seed, from, to, otherwise, got None",
    "Example: cleaning: {trim: true, case: lower",
)


@pytest.fixture(scope="module")
def wrong(make_project: Callable[..., DbtProject]) -> DbtProject:
    models = [{"name": "wrong", "columns": as_yaml(WRONG)}]
    return make_project(
        {
            MACRO: (REPO / MACRO).read_text(encoding="utf-8"),
            "models/models.yml": yaml.safe_dump({"models": models}, sort_keys=False),
            "models/wrong.sql": f"{{{{ cleaned(model, from_cte='raw', columns={COLUMNS}) }}}}",
            "models/bare.sql": "{{ cleaned(model, from_cte=1, columns='id') }}",
        }
    )


def test_all_problems_of_a_models_rules_are_reported_at_once(wrong: DbtProject) -> None:
    outcome = wrong.run("compile", "--select", "wrong", expect_ok=False)

    output = " ".join(f"{outcome.log} {outcome.exception}".split())
    assert [item for item in EXPECTED_TEXTS if item not in output] == []


def test_a_call_without_rules_and_columns_is_refused(wrong: DbtProject) -> None:
    outcome = wrong.run("compile", "--select", "bare", expect_ok=False)

    output = f"{outcome.log} {outcome.exception}"
    for problem in (
        "from_cte must be the name of a CTE, got 1",
        "columns must be a list of column names, got id",
        "no column in the YAML has rules in meta.cleaning",
    ):
        assert problem in output
