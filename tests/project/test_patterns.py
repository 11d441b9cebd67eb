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
from fnmatch import translate
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from python_udfs.ingestion.formats import ddl
from python_udfs.ingestion.formats.debezium import values
from python_udfs.targets import postgres
from tests.support.dbt_project import REPO

SMALL, LARGE = 3_000, 12_000  # characters
# A text four times as long may take so many times as long; a quadratic pattern takes 16 times
GROWTH = 9
SUSPECT = 5  # times as long, of many texts together
QUICK = 0.004  # seconds, below which a time means nothing
SURE = 0.2  # seconds, above which what else the machine does hardly counts
OF_PYTHON = {"compile", "search", "match", "fullmatch", "sub", "split", "findall", "finditer"}
OF_JAVA = {"rlike": 0, "regexp_replace": 1, "regexp_extract": 1, "regexp_extract_all": 1}
OF_JAVA |= {"regexp_count": 1}
# of the methods of re: which argument the flags are
FLAGS_AT = {"compile": 1, "sub": 4, "split": 3}
IN_SQL = re.compile(r"\b(?:modules\.re\.(\w+)|(regexp_\w+|regexp|rlike))\b\s*(\(?)")
SQL_FOLDERS = ("models", "macros", "snapshots", "tests/dbt", "python_udfs")
ADAPTER = "python_udfs/sparksession_adapter/dbt/adapters/sparksession"
_ESCAPED = r'[^"\\]*+(?:\\.[^"\\]*+)++'
INGESTION = "python_udfs/ingestion"
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
    (
        EXACT_NUMBERS,
        "f'\\\\.\\\\d{{{places + 1}}}|\\\\d[eE]-'",
    ): [r"\.\d{5}|\d[eE]-"],
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
    (f"{INGESTION}/whole_table/statements.py", "name"): [r"(?<![\w$])order_info(?![\w$])"],
    (f"{INGESTION}/tables/log_resets.py", "f'^(?:{regex})'"): [f"^(?:{translate('maxwell*')})"],
    (f"{INGESTION}/formats/envelope.py", "f'^(?:{regex})'"): [f"^(?:{translate('maxwell*')})"],
    (f"{INGESTION}/typed/rows.py", "'`'"): ["`"],
    ("python_udfs/servers/kafka.py", "pattern"): [],  # KAFKA_TOPICS: the operator's own
    ("python_udfs/targets/postgres.py", "pattern"): list(postgres.OTHER_NAMES),
    ("python_udfs/targets/postgres.py", "own"): list(postgres.FITTING),
    ("python_udfs/targets/postgres.py", "fitting"): list(postgres.FITTING.values()),
    ("python_udfs/targets/transactional.py", "f'jdbc:{scheme}://[^/?]+/[^/?]+(\\\\?.*)?'"): [
        r"jdbc:mysql://[^/?]+/[^/?]+(\?.*)?"
    ],
    ("macros/cleaning/cleaned.sql", "date"): [r"\d{4}-\d\d-\d\d"],
    ("macros/cleaning/cleaned.sql", r"date ~ '[ T]\\d\\d:\\d\\d(:\\d\\d(\\.\\d+)?)?'"): [
        r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?"
    ],
    (f"{ADAPTER}/declared/joins.py", "f'\\\\b{alias}\\\\.`?(\\\\w+)'"): [r"\bone\.`?(\w+)"],
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


def attacks(pattern: str) -> Iterator[Callable[[int], str]]:
    """Makers of texts of about some length that may be hard on the pattern."""
    words = list(dict.fromkeys(WORDS.findall(pattern)))[:12]
    begins = [*BEGINS, *(f"{word} " for word in words[:4])]
    pumps = [*SIGNS, *(f"{word} " for word in words), *(f"({word}" for word in words[:4])]
    for begin in begins:
        for pump in pumps:
            for end in ENDS:
                yield lambda size, b=begin, p=pump, e=end: b + p * (size // len(p)) + e


def slow(makers: Iterable[Callable[[int], str]], seconds: Callable[[str], float]) -> list[str]:
    """The first text whose time grows more than it does."""
    for make in makers:
        once = seconds(make(LARGE))
        if once < QUICK or once < GROWTH * seconds(make(SMALL)):
            continue
        size = LARGE
        while True:  # what is busy for a moment isn't slow at every size
            # the shortest of some: others work on this machine too. What takes long is sure at once
            tries = 1 if once > SURE else 3
            large = min(seconds(make(size)) for _ in range(tries))
            small = min(seconds(make(size // 4)) for _ in range(tries + 2))
            if large < QUICK or large < GROWTH * small:
                break
            if large > 1 or size >= 4 * LARGE:
                return [f"{make(40)!r}: {small:.4f} s and {large:.4f} s"]
            size *= 2
    return []


def in_python(pattern: str, used: Collection[str], flags: int = 0) -> list[str]:
    gc.collect()  # of what other tests left
    compiled = re.compile(pattern, flags)

    def seconds(text: str) -> float:
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

    return slow(islice(attacks(pattern), 0, None, 2), seconds)


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

    def replaced(text: str) -> float:
        return cpu(lambda: compiled.matcher(text).replaceAll(" "))

    if replaces:
        return slow(islice(attacks(pattern), 0, None, 7), replaced)
    found = compiled.asPredicate()
    for begin in BEGINS:
        texts = {size: in_the_jvm(spark, begin, size) for size in (SMALL, LARGE)}
        large, small = (
            cpu(lambda some=texts[size]: some.stream().filter(found).count())
            for size in (LARGE, SMALL)
        )
        # one of many texts may hide among the others: then each is tried for itself
        if large >= QUICK and large >= SUSPECT * small:
            hard = slow(attacks_of_java(begin), replaced)
            if hard:
                return hard
    return []


def attacks_of_java(begin: str) -> Iterator[Callable[[int], str]]:
    for pump in [*SIGNS, *JAVA_WORDS]:
        for end in ENDS:
            yield lambda size, p=pump, e=end: begin + p * (size // len(p)) + e


@cache
def in_the_jvm(spark: SparkSession, begin: str, size: int) -> Any:
    """A list of Java of the attacks that begin so: they are sent once for all patterns."""
    texts = spark._jvm.java.util.ArrayList()
    for make in attacks_of_java(begin):
        texts.add(make(size))
    return texts


@pytest.mark.slow
def test_no_pattern_of_python_takes_time_out_of_proportion() -> None:
    found, unknown = found_patterns()
    assert unknown == [], "enter what they can be in COMPOSED"
    mine = [item for item in found if "java" not in item[1]]
    assert len(mine) > 40
    assert any(flags & re.DOTALL for *_, flags in mine)
    bad = {place: hard for place, used, *row in mine if (hard := in_python(row[0], used, row[1]))}
    assert bad == {}


def test_no_pattern_of_java_takes_time_out_of_proportion_or_its_stack(spark: SparkSession) -> None:
    mine = [item for item in found_patterns()[0] if "java" in item[1]]
    assert len(mine) > 25
    bad = {
        place: hard
        for place, used, item, _ in mine
        if (hard := in_java(spark, item, "replace" in used))
    }
    assert bad == {}


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


def test_a_pattern_that_takes_time_out_of_proportion_is_found(spark: SparkSession) -> None:
    assert in_python(r"a*a*b", {"match"})
    assert in_python(r"\{#.*?#\}", {"sub"})
    assert in_java(spark, r"(?s)/\*(?!M?!).*?\*/")
    assert in_java(spark, r"(?is)^alter\b.*?\btable\b.*?\brename\b")


def test_a_pattern_that_takes_javas_stack_is_found(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="StackOverflow"):
        in_java(spark, "'((?:[^']|'')*)'")
