"""No regular expression of the project takes time out of proportion, or Java's stack.

Each pattern meets texts that are made for it: its own words and signs, one of them repeated. The
time must grow as the text does. Who adds a pattern has nothing to do here, unless it is put
together where it is used: see COMPOSED.
"""

from __future__ import annotations

import ast
import gc
import importlib
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import translate
from functools import cache, lru_cache
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from python_udfs.ingestion.formats import ddl, exact_numbers
from python_udfs.ingestion.formats.debezium import values
from python_udfs.targets import mysql, postgres
from tests.support.dbt_project import REPO

SMALL, LARGE = 3_000, 12_000  # characters
# A text four times as long may take so many times as long; a quadratic pattern takes 16 times
GROWTH = 9
SUSPECT = 5  # times as long, of many texts together
QUICK = 0.004  # seconds, below which a time means nothing
SURE = 0.2  # seconds, above which what else the machine does hardly counts
WAYS = (re.UNICODE, re.ASCII)
# what stands for one sign, or for a place between two
TOKENS = re.compile(
    r"\[\^?+\]?+(?:\\.|[^\]\\])*+\]|\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|.)|.", re.DOTALL
)
OF_PYTHON = {"compile", "search", "match", "fullmatch", "sub", "split", "findall", "finditer"}
OF_JAVA = {"rlike": 0, "regexp_replace": 1, "regexp_extract": 1, "regexp_extract_all": 1}
OF_JAVA |= {"regexp_count": 1}
# of the methods of re: which argument the flags are
FLAGS_AT = {"compile": 1, "sub": 4, "split": 3}
IN_SQL = re.compile(r"\b(?:modules\.re\.(\w+)|(regexp_\w+|regexp|rlike))\b\s*(\(?)")
SQL_FOLDERS = ("models", "macros", "snapshots", "tests/dbt", "python_udfs")
ADAPTER = "python_udfs/sparksession_adapter/dbt/adapters/sparksession"
_ESCAPED = r'[^"\\]*+(?:\\.[^"\\]*+)++'
INGESTION, JDBC_STORES = "python_udfs/ingestion", "python_udfs/targets/transactional.py"
EXACT_NUMBERS = f"{INGESTION}/formats/exact_numbers.py"
# Patterns that are put together where they are used: place and source text -> what they can be
COMPOSED: dict[tuple[str, str], list[str]] = {
    (f"{INGESTION}/formats/ddl.py", "pattern"): list(ddl._OPS.values()),
    (f"{INGESTION}/formats/debezium/values.py", "f'^({pattern}){_UTC}'"): [
        f"^({item}){values._UTC}" for item in (values._ISO_TIME, r"\d{4}-\d{2}-\d{2}")
    ],
    (
        EXACT_NUMBERS,
        """f'{numbers}|{begin}(?:{others})"\\\\s*:\\\\s*[\\\\[{{]'""",
    ): [
        rf'(?<!\\)"(?:a|{_ESCAPED})"\s*:\s*(?:-?\d+[.eE]|-0(?!\d))'
        rf'|(?<!\\)"(?:a|{_ESCAPED})"\s*:\s*[\[{{]'
    ],
    (EXACT_NUMBERS, "_value_beside(around)"): [exact_numbers._value_beside(("a", "b"))],
    (EXACT_NUMBERS, "f'\\\\.\\\\d{{{places + 1}}}|\\\\d[eE]-'"): [r"\.\d{5}|\d[eE]-"],
    (
        EXACT_NUMBERS,
        """F.lit(f'{begin}{name}"\\\\s*:\\\\s*[\\\\[{{]')""",
    ): [r'(?<!\\)"a"\s*:\s*[\[{]'],
    (f"{INGESTION}/log/names.py", """f'[".]{re.escape(parts[-1])}\\\\\\\\?"\\\\s*+:'"""): [
        r'[".]a\\?"\s*+:'
    ],
    (
        f"{ADAPTER}/versions/published_views.py",
        "f'\\\\bfrom {re.escape(table)} where version >= '",
    ): [r"\bfrom dw\.meta_version where version >= "],
    (
        f"{ADAPTER}/reading/named_reads.py",
        "f'[ .\\\\[]{re.escape(table)}(?![\\\\w.])'",
    ): [r"[ .\[]dw\.a(?![\w.])"],
    (f"{ADAPTER}/reading/touched_rows.py", "f'\\\\b({words}) {name}{BEHIND_A_NAME}'"): [
        r"\b(from|join) dw\.a(?![\w.`])(?=(?:\s|--[^\n]*|/\*[\s\S]*?\*/)*+([\w`]+)?)"
    ],
    (f"{INGESTION}/whole_table/statements.py", "name"): [r"(?<![\w$])order_info(?![\w$])"],
    (f"{INGESTION}/tables/topics.py", "'|'.join(others)"): [f"^{translate('maxwell*')}"],
    (f"{INGESTION}/typed/rows.py", "'`'"): ["`"],
    ("python_udfs/servers/kafka.py", "pattern"): [],  # KAFKA_TOPICS: the operator's own
    ("python_udfs/targets/postgres.py", "pattern"): list(postgres.OTHER_NAMES),
    (JDBC_STORES, "own"): [*mysql.FITTING, *postgres.FITTING],
    (JDBC_STORES, "others"): [*mysql.FITTING.values(), *postgres.FITTING.values()],
    ("python_udfs/targets/transactional.py", "f'jdbc:{scheme}://[^/?]+/[^/?]+(\\\\?.*)?'"): [
        r"jdbc:mysql://[^/?]+/[^/?]+(\?.*)?"
    ],
    ("macros/cleaning/cleaned.sql", "date"): [r"\d{4}-\d\d-\d\d"],
    ("macros/cleaning/cleaned.sql", r"date ~ '[ T]\\d\\d:\\d\\d(:\\d\\d(\\.\\d+)?)?'"): [
        r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?"
    ],
    (f"{ADAPTER}/declared/join_sides.py", "f'\\\\b{alias}\\\\.`?(\\\\w+)'"): [r"\bone\.`?(\w+)"],
}
WORDS = re.compile(r"[A-Za-z]{2,}")
SIGNS = [
    *"'\"`\\/*-#.,:;=+ \n\t~(){}[]<>$%_?!0aAzé\u0301\U0001f600",
    *["''", "\\'", "/*", "*/", "--", "a.", "1,", "\\u", "\\ud8", "{{", "}}", "{#", "1:"],
    *("\r\n", "a ", "/* ", "{# "),
]


BEGINS = ["", "'", "alter table x ", "/*", "0.", "a"]
ENDS = ["", "\x01", "!'"]
# of the patterns that Java is given
JAVA_WORDS = [
    "table ",
    "rename ",
    "drop ",
    "truncate ",
    "alter ",
    "partition ",
    "2026-03-02",
    "bin.1:",
    " = ",
]


def modules() -> list[Path]:
    places = ("python_udfs", "tools")
    return [path for place in places for path in sorted((REPO / place).rglob("*.py"))]


def calls() -> Iterator[tuple[str, ast.Call, ast.Attribute]]:
    """Path, call and what is called, of all methods that are called anywhere."""
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                yield str(path.relative_to(REPO)), node, node.func


def used_patterns() -> Iterator[tuple[str, set[str], ast.expr, ast.expr | None]]:
    """Place, use (`java`, or the methods of re), expression and flags of each pattern."""
    methods: dict[tuple[str, str], set[str]] = {}  # of patterns that have a name
    named: dict[tuple[str, int], str] = {}
    for path in modules():
        place = str(path.relative_to(REPO))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                named[place, node.value.lineno] = node.targets[0].id
    for path, _, called in calls():
        if isinstance(called.value, ast.Name):
            methods.setdefault((path, called.value.id), set()).add(called.attr)
    for path, node, called in calls():
        owner = called.value.id if isinstance(called.value, ast.Name) else ""
        place = f"{path}:{node.lineno}"
        if owner == "re" and called.attr == "compile":
            used = methods.get((path, named.get((path, node.lineno), "")), set())
            # of one that other modules use nothing is known
            yield place, (used & OF_PYTHON) or {"search"}, node.args[0], flags_of(node, called.attr)
        elif owner == "re" and called.attr in OF_PYTHON:
            yield place, {called.attr}, node.args[0], flags_of(node, called.attr)
        elif called.attr in OF_JAVA:
            how = {"java", "replace"} if called.attr == "regexp_replace" else {"java"}
            yield place, how, node.args[OF_JAVA[called.attr]], None
        elif called.attr == "split" and owner == "F":
            yield place, {"java"}, node.args[1], None


def flags_of(call: ast.Call, method: str) -> ast.expr | None:
    """The flags of a call of re; None where it has none."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
    return next(iter([*named, *call.args[FLAGS_AT.get(method, 2) :]]), None)


def sql_arguments(text: str, begin: int) -> list[str]:
    """The arguments of a call, from behind its opening parenthesis on."""
    found, depth, quote, start = [], 0, "", begin
    for place in range(begin, len(text)):
        sign = text[place]
        if quote:
            escaped = (place - len(text[:place].rstrip("\\"))) % 2 != 0
            quote = "" if sign == quote and not escaped else quote
        elif sign in "'\"":
            quote = sign
        elif depth == 0 and sign in ",)":
            found.append(text[start:place].strip())
            start = place + 1
            if sign == ")":
                return found
        else:
            depth += (sign in "([{") - (sign in ")]}")
    raise ValueError(f"a call isn't closed: {text[begin : begin + 60]!r}")


def sql_patterns(place: str, text: str) -> Iterator[tuple[set[str], list[str] | str]]:
    """How each pattern of a file of SQL is used, and what it can be; else its own source text."""
    for found in IN_SQL.finditer(text):
        of_python, _, opened = found.groups()
        if opened:
            arguments = sql_arguments(text, found.end())
            given = (arguments if of_python else arguments[1:] or [""])[0]
        else:  # x rlike '..'
            given = (re.match(r"\s*('(?:[^'\\]|\\.)*+')", text[found.end() :]) or [""])[0].strip()
        listed = COMPOSED.get((place, given))
        if listed is None and re.fullmatch(r"'(?:[^'\\]|\\.)*+'", given):
            listed = [given[1:-1].replace("\\\\", "\\")]
        used = {of_python} if of_python else {"java"}
        if not of_python and "replace" in found[2]:
            used |= {"replace"}
        yield used, f"{place}: {found[0]}{given}" if listed is None else listed


def module_of(path: str) -> Any:
    if path.startswith("python_udfs/sparksession_adapter"):
        path = path.partition("sparksession_adapter/")[2]
    return importlib.import_module(path.removesuffix(".py").replace("/", "."))


def value_of(path: str, node: ast.expr) -> list[str] | None:
    """The texts that an expression can be; None where only its place knows."""
    listed = COMPOSED.get((path, ast.unparse(node)))
    if listed is not None:
        return listed
    if isinstance(node, ast.Call) and node.args:  # F.lit(..)
        node = node.args[0]
    try:
        scope = vars(module_of(path)) if not isinstance(node, ast.Constant) else {}
        found = eval(compile(ast.Expression(node), path, "eval"), dict(scope))
    except NameError:
        return None
    return [found] if isinstance(found, str) else None


def found_patterns() -> tuple[list[tuple[str, set[str], str, int]], list[str]]:
    """Place, use, text and flags of each pattern; and the places whose pattern isn't known."""
    found = []
    unknown = []
    for place, used, node, flags in used_patterns():
        path = place.rpartition(":")[0]
        texts = value_of(path, node)
        if texts is None:
            unknown.append(f"{place}: {ast.unparse(node)}")
        scope = vars(module_of(path)) if flags is not None else {}
        as_is = eval(ast.unparse(flags), dict(scope)) if flags is not None else 0
        found += [(place, used, text, int(as_is)) for text in texts or ()]
    for path in sorted(path for place in SQL_FOLDERS for path in (REPO / place).rglob("*.sql")):
        place = str(path.relative_to(REPO))
        for used, texts in sql_patterns(place, path.read_text(encoding="utf-8")):
            if isinstance(texts, str):
                unknown.append(texts)
            else:
                found += [(place, used, text, 0) for text in texts]
    return found, unknown


def repeats_without_bound(pattern: str) -> bool:
    """Whether anything in it repeats, or may a thousand times: without, the time of each place of a
    text has a bound that the pattern alone sets, and so has the stack."""
    outside = TOKENS.sub(lambda token: token[0] if len(token[0]) == 1 else "_", pattern)
    return re.search(r"[*+]|\{\d*,\}|\{[^}]*\d{4}", outside) is not None


def alike(pattern: str) -> Callable[[str], Any]:
    """A function that gives two signs the same value if the pattern can't distinguish them."""
    tokens = set(TOKENS.findall(pattern))
    of_one_sign = {token for token in tokens if len(token) == 1}
    tests = {re.escape(token) for token in of_one_sign} | {r"[\n\r]"}  # what `.` and `$` ask
    for token in tokens - of_one_sign:
        if re.fullmatch(r"\\[bB]", token):
            tests.add(r"\w")
        elif not re.fullmatch(r"\\[AGZz]", token):
            tests.add(token)
    cases = (0, re.I) if "(?i" in pattern else (0,)
    try:
        # what is a word's sign is another thing in Java and in Python
        compiled = [
            re.compile(test, case | way) for test in tests for case in cases for way in WAYS
        ]
    except re.error:  # Java's own
        return lambda sign: sign
    # what a group found is compared sign by sign; a class of classes isn't Python's
    if re.search(r"\\[1-9]|\(\?P=|&&|\[[^\]\\]*\[", pattern):
        return lambda sign: sign
    return lambda sign: tuple(test.fullmatch(sign) is not None for test in compiled)


@dataclass(frozen=True)
class Attack:
    """A text of about any length: `pump` stands again and again between the others."""

    begin: str
    pump: str
    end: str

    def text(self, size: int) -> str:
        return self.begin + self.pump * (size // len(self.pump)) + self.end

    def as_seen(self, number: Callable[[str], Any]) -> tuple[Any, ...]:
        """What it is to a pattern for which signs of one `number` are the same."""
        begin, pump, end = (tuple(map(number, part)) for part in (self.begin, self.pump, self.end))
        rounds = range(1, len(pump) + 1)
        size = next(size for size in rounds if pump[:size] * (len(pump) // size) == pump)
        return begin, pump[:size], end


def attacks(pattern: str) -> Iterator[Attack]:
    """Texts that may be hard on the pattern."""
    words = list(dict.fromkeys(WORDS.findall(pattern)))[:12]
    begins = [*BEGINS, *(f"{word} " for word in words[:4])]
    pumps = [*SIGNS, *(f"{word} " for word in words), *(f"({word}" for word in words[:4])]
    yield from (Attack(*parts) for parts in product(begins, pumps, ENDS))


def attacks_of_java(begin: str) -> list[Attack]:
    return [Attack(begin, *parts) for parts in product([*SIGNS, *JAVA_WORDS], ENDS)]


def different(pattern: str, given: Iterable[Attack]) -> list[Attack]:
    """One of all that are the same to the pattern."""
    number = cache(alike(pattern))
    return list({attack.as_seen(number): attack for attack in given}.values())


def slow(given: Iterable[Attack], seconds: Callable[[Attack, int], float]) -> list[str]:
    """The first text whose time grows more than it does.

    Args:
        seconds: how long the text takes at a size.
    """
    for attack in given:
        before = seconds(attack, SMALL)
        size = SMALL
        if before < SURE:  # else it is sure to be found at once, and may take minutes when larger
            once = seconds(attack, LARGE)
            if once < QUICK or once < GROWTH * before:
                continue
            size = LARGE
        while True:  # what is busy for a moment isn't slow at every size
            # the shortest of some: others work on this machine too
            large = min(seconds(attack, size) for _ in range(3))
            small = min(seconds(attack, size // 4) for _ in range(5))
            if large < QUICK or large < GROWTH * small:
                break
            if large > SURE or size >= 4 * LARGE:
                return [f"{attack.text(40)!r}: {small:.4f} s and {large:.4f} s"]
            size *= 2
    return []


def in_python(pattern: str, used: Collection[str], flags: int = 0) -> list[str]:
    gc.collect()  # of what other tests left
    compiled = re.compile(pattern, flags)

    def seconds(attack: Attack, size: int) -> float:
        text = attack.text(size)
        begin = time.thread_time()
        for name in used:
            if name == "finditer":
                for _ in compiled.finditer(text):
                    pass
            elif name == "sub":
                compiled.sub("", text)
            else:
                getattr(compiled, name)(text)
        return time.thread_time() - begin

    shown = f"(?i){pattern}" if flags & re.I else pattern
    return slow(different(shown, islice(attacks(pattern), 0, None, 2)), seconds)


def in_java(spark: SparkSession, pattern: str, replaces: bool = False) -> list[str]:
    """As `in_python`, for Java.

    Args:
        replaces: it is looked for again behind each place where it was found. That takes a call
            for each text; else all texts of a begin go through it at once.
    """
    jvm = spark._jvm
    # the work of this thread: what else the machine does has no say
    threads = jvm.java.lang.management.ManagementFactory.getThreadMXBean()
    compiled = jvm.java.util.regex.Pattern.compile(pattern)

    def cpu(call: Callable[[], Any]) -> float:
        begin = threads.getCurrentThreadCpuTime()
        call()
        return (threads.getCurrentThreadCpuTime() - begin) / 1e9

    def everywhere(attack: Attack, size: int) -> float:
        text = built_in_the_jvm(spark, attack, size)
        return cpu(lambda: compiled.matcher(text).results().count())

    if replaces:
        given = different(pattern, islice(attacks(pattern), 0, None, 7))
        return slow(given, everywhere)
    found = compiled.asPredicate()
    for begin in BEGINS:
        small, large = 0.0, 0.0
        for size in (SMALL, LARGE):
            texts = in_the_jvm(spark, begin, size)
            small, large = large, cpu(lambda some=texts: some.stream().filter(found).count())
            if large > SURE:  # nor is the larger size tried
                break
        # one of many texts may hide among the others: then each is tried for itself
        if large >= QUICK and large >= SUSPECT * small:
            hard = slow(different(pattern, attacks_of_java(begin)), everywhere)
            if hard:
                return hard
    return []


@cache
def in_the_jvm(spark: SparkSession, begin: str, size: int) -> Any:
    """A list of Java of the attacks that begin so: they are sent once for all patterns."""
    texts = spark._jvm.java.util.ArrayList()
    for attack in attacks_of_java(begin):
        texts.add(attack.text(size))
    return texts


@lru_cache(maxsize=2_000)
def built_in_the_jvm(spark: SparkSession, attack: Attack, size: int) -> Any:
    """A text that stays there: a string would be sent with each call."""
    return spark._jvm.java.lang.StringBuilder(attack.text(size))


def hard_texts(
    given: list[tuple[str, set[str], str, int]],
    tried: Callable[[str, set[str], str, int], list[str]],
) -> dict[str, list[str]]:
    """Place -> text of the patterns that take too long; each pattern is tried once."""
    each = {(text, tuple(sorted(used)), flags): place for place, used, text, flags in given}
    some = {key: place for key, place in each.items() if repeats_without_bound(key[0])}
    assert len(some) > len(given) / 3
    return {
        f"{place}: {text}": hard
        for (text, used, flags), place in some.items()
        if (hard := tried(place, set(used), text, flags))
    }


@pytest.mark.slow
@pytest.mark.in_turn
def test_no_pattern_of_python_takes_time_out_of_proportion() -> None:
    found, unknown = found_patterns()
    assert unknown == [], "enter what they can be in COMPOSED"
    mine = [item for item in found if "java" not in item[1]]
    assert len(mine) > 40
    assert any(flags & re.DOTALL for *_, flags in mine)
    assert hard_texts(mine, lambda _, used, item, flags: in_python(item, used, flags)) == {}


@pytest.mark.in_turn
def test_no_pattern_of_java_takes_time_out_of_proportion_or_its_stack(spark: SparkSession) -> None:
    mine = [item for item in found_patterns()[0] if "java" in item[1]]
    assert len(mine) > 25
    assert hard_texts(mine, lambda _, used, item, __: in_java(spark, item, "replace" in used)) == {}


def test_a_pattern_that_repeats_without_bound_is_distinguished() -> None:
    for pattern in ("a*", r"\.+", "[*]+?", "(ab)++", "a{3,}", "a{,}", "a{1,5000}", "a{1000}b"):
        assert repeats_without_bound(pattern), pattern
    for pattern in ("abc", r"\*\+", "[*+]", "a?(b|c)", r"\d{4}-\d\d", "[{1,}]", r"a\{3,\}", "{{"):
        assert not repeats_without_bound(pattern), pattern


def test_texts_that_are_the_same_to_a_pattern_are_tried_once() -> None:
    def count(pattern: str, *parts: tuple[str, str, str]) -> int:
        return len(different(pattern, (Attack(*part) for part in parts)))

    assert count("'[^']*+'", ("", "a", ""), ("", "bc", ""), ("", ".", "")) == 1
    assert count("'[^']*+'", ("", "a'", ""), ("", "'b", ""), ("", "''", ""), ("'", "''", "")) == 4
    assert count(r"\w*\b", ("", "a", ""), ("", ".", ""), ("", "é", "")) == 3
    assert count("x*", ("", "x", ""), ("", "X", ""), ("", ".", "")) == 2
    assert count("(?i)x*", ("", "x", ""), ("", "X", ""), ("", ".", "")) == 3
    assert count(r"[\p{Cntrl}]*", ("", "a", ""), ("", "b", "")) == 2  # Java's own: each sign counts
    assert count(r"(.)\1*", ("", "ab", ""), ("", "cc", ""), ("", "cd", "")) == 3


def test_patterns_of_sql_are_found_or_named() -> None:
    texts = {
        r"select regexp_replace(f(a, '),'), '\\d+', ' ')": r"\d+",
        "where x rlike '^a' and y": "^a",
        "{% if modules.re.fullmatch('a|b', name) %}": "a|b",
    }
    for sql, pattern in texts.items():
        assert [item for _, item in sql_patterns("x.sql", sql)] == [[pattern]], sql
    for sql in ("regexp_extract(a, 'b' ~ c, 1)", "a rlike b", "modules.re.match(x, y)"):
        assert [type(item) for _, item in sql_patterns("x.sql", sql)] == [str], sql


@pytest.mark.soak
def test_a_pattern_that_takes_time_out_of_proportion_is_found(spark: SparkSession) -> None:
    assert in_python(r"a*a*b", {"match"})
    assert in_python(r"\{#.*?#\}", {"sub"})
    assert in_java(spark, r"(?s)/\*(?!M?!).*?\*/")
    assert in_java(spark, r"(?is)^alter\b.*?\btable\b.*?\brename\b")


def test_a_pattern_that_takes_javas_stack_is_found(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="StackOverflow"):
        in_java(spark, "'((?:[^']|'')*)'")
