"""The check of `meta.cleaning`: the rules by which macro `cleaned` cleans a model's columns."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Literal

from dbt.adapters.sparksession.declared.declarations import DeclarationError
from dbt.adapters.sparksession.edges import Given, Settings
from dbt.adapters.sparksession.yaml_fields import Fields, field_errors, known_fields
from pydantic import BeforeValidator, Field, StrictBool

EXAMPLE = (
    "cleaning: {trim: true, case: lower, null_like: ['', n/a], dictionary: {seed: city, "
    "from: city_name, to: city_code, otherwise: refuse}} of a text, "
    "cleaning: {null_like: [-1], range: {min: 0, max: 100}} of a number"
)
OUTCOMES = "cleaning"  # the column with the outcomes of rules
NAME = "[A-Za-z_][A-Za-z0-9_]*"
CASES = "be lower or upper"
BOUNDS = "be a mapping of min, max or both"
DICTIONARY = "be a mapping of seed, from, to, otherwise"
DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
TIME = re.compile(DATE.pattern + r"[ T]\d\d:\d\d(:\d\d(\.\d+)?)?", re.ASCII)
TEXTS, NUMBERS, DATES, TIMES, OTHER = "texts", "numbers", "dates", "times", "other"


def kind_of(value: Given) -> str:
    """What a value in YAML is: a number, a date, a time, a text, or none of these.

    >>> [kind_of(one) for one in (1.5, "2026-03-01", "2026-03-01 10:00", "n/a", True)]
    ['numbers', 'dates', 'times', 'texts', 'other']
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return NUMBERS if math.isfinite(value) else OTHER
    if not isinstance(value, str):
        return OTHER
    if DATE.fullmatch(value):
        return DATES
    return TIMES if TIME.fullmatch(value) else TEXTS


def _filled(value: Given) -> Given:
    if value in (None, {}, [], ()):
        raise ValueError("nothing is given")
    return value


Filled = BeforeValidator(_filled)
Name = Annotated[str, Field(pattern=f"^{NAME}$", strict=True)]
OF_SEED = Field(description="be the name of a column of the seed")


class Bounds(Fields):
    """`range` of a column's rules."""

    min: Given = None
    max: Given = None


class Dictionary(Fields):
    """`dictionary` of a column's rules."""

    seed: Annotated[Name, Field(description="be the name of a seed")]
    source: Annotated[Name, Field(alias="from"), OF_SEED]
    to: Annotated[Name, OF_SEED]
    otherwise: Annotated[Literal["keep", "refuse"], Field(description="be keep or refuse")] = (
        "refuse"
    )


class Rules(Fields):
    """`meta.cleaning` of a column."""

    trim: Annotated[StrictBool, Field(description="be true or false")] = False
    case: Annotated[Literal["lower", "upper"] | None, Filled, Field(description=CASES)] = None
    null_like: Annotated[list[Given] | None, Filled, Field(description="be a list of values")] = (
        None
    )
    range: Annotated[Bounds | None, Filled, Field(description=BOUNDS)] = None
    dictionary: Annotated[dict[Given, Given] | None, Filled, Field(description=DICTIONARY)] = None


RULES = tuple(known_fields(Rules))
DICTIONARY_KEYS = tuple(known_fields(Dictionary))


def rule_problems(given: Given, seeds: Collection[str]) -> Iterator[str]:
    """Error texts for the rules of one column.

    Args:
        given: `meta.cleaning`.
        seeds: names of the seeds that the model reads.
    """
    if not isinstance(given, Mapping) or not given:
        yield f"rules must be a mapping of {', '.join(RULES)}, got {given}"
        return
    errors = field_errors(Rules, given)
    for rule, wanted in errors.items():
        if wanted is None:
            yield f"unknown rule {rule}; there are {', '.join(RULES)}"
        else:
            yield f"{rule} must {wanted}, got {given[rule]}"
    kinds = {rule: TEXTS for rule in ("trim", "case", "dictionary") if given.get(rule)}
    if "null_like" in given and "null_like" not in errors:
        yield from _null_like_problems(given, kinds)
    if "range" in given and "range" not in errors:
        yield from _range_problems(given["range"], kinds)
    if "dictionary" in given and "dictionary" not in errors:
        yield from _dictionary_problems(given["dictionary"], seeds)
    if len(set(kinds.values())) > 1:
        misfits = ", ".join(f"{rule} is for {kind}" for rule, kind in kinds.items())
        yield f"{misfits}: cast the column in the CTE, or split it into two"


def _null_like_problems(given: Settings, kinds: dict[str, str]) -> Iterator[str]:
    """Error texts for the values that are null; their kind is noted in `kinds`."""
    cases = {"lower": str.lower, "upper": str.upper}
    for value in given["null_like"]:
        if isinstance(value, str):
            kinds["null_like"] = TEXTS
            met = value.strip() if given.get("trim") else value
            met = cases.get(str(given.get("case")), str)(met)
            if met != value:
                yield f"null_like '{value}' never matches, as the rules before it make it '{met}'"
        elif kind_of(value) == NUMBERS:
            kinds["null_like of numbers"] = NUMBERS
        else:
            yield f"null_like must have texts (in quotes) or numbers, got {value}"


def _range_problems(bounds: Settings, kinds: dict[str, str]) -> Iterator[str]:
    """Error texts for the bounds of a range; their kind is noted in `kinds`."""
    fits = True
    for bound, value in bounds.items():
        kind = kind_of(value)
        if kind in (NUMBERS, DATES, TIMES):
            kinds[f"range of {kind}"] = kind
            continue
        fits = False
        yield (
            f"{bound} of range must be a number, or a date or time as '2026-03-01' or "
            f"'2026-03-01 00:00:00', got {value}"
        )
    if fits and len(bounds) == 2:
        low, high = bounds["min"], bounds["max"]
        if kind_of(low) == kind_of(high) and low > high:
            yield f"min of range, {low}, is above its max, {high}"


def _dictionary_problems(given: Mapping[Given, Given], seeds: Collection[str]) -> Iterator[str]:
    """Error texts for a dictionary."""
    errors = field_errors(Dictionary, given)
    for key, wanted in errors.items():
        if wanted is None:
            yield f"unknown key {key} of dictionary; there are {', '.join(DICTIONARY_KEYS)}"
        else:
            yield f"{key} of dictionary must {wanted}, got {given.get(key)}"
    seed = given.get("seed")
    if "seed" not in errors and seed not in seeds:
        yield (
            f"the model does not read the seed {seed}; add a CTE {seed} as "
            f"(select .. from {{{{ ref('{seed}') }}}})"
        )


def check_cleaning(
    model: str, rules: Settings, from_cte: Given, columns: Given, seeds: Collection[str]
) -> None:
    """Look at what macro `cleaned` is given.

    Args:
        model: its name.
        rules: column -> its `meta.cleaning`.
        from_cte, columns: the macro's arguments.
        seeds: names of the seeds that the model reads.

    Raises:
        DeclarationError: with all problems.
    """
    problems = []
    if not isinstance(from_cte, str):
        problems.append(f"from_cte must be the name of a CTE, got {from_cte}")
    is_list = isinstance(columns, Sequence) and not isinstance(columns, str)
    if not is_list or not columns:
        problems.append(f"columns must be a list of column names, got {columns}")
    elif OUTCOMES in columns:
        problems.append(f"columns has {OUTCOMES}, which is the name of what was done")
    if not rules:
        problems.append("no column in the YAML has rules in meta.cleaning")
    for column, given in rules.items():
        if is_list and column not in columns:
            problems.append(f"{column}: has rules, but is none of columns")
        problems += [f"{column}: {problem}" for problem in rule_problems(given, seeds)]
    if problems:
        raise DeclarationError(f"cleaned: rules of {model}", problems, EXAMPLE)
