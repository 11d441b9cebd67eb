"""The pages (README, docs, CONTRIBUTING, SECURITY) hold what the code holds.

Every check is a function from a page's text to its problems, so that the tests at the end can give
it a page with a mistake. Nothing here starts Spark.

Longer than 500 lines: each check stands with the page that has the mistake which it finds.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from dbt.adapters.sparksession.keyed.settings import (
    FoldSettings,
    Function,
    OnDelete,
    ZipperSettings,
)
from dbt.adapters.sparksession.reading.definitions import COMMAND_VARS, OTHER_META
from dbt.adapters.sparksession.versions.publications import KEYS_OF_PUBLISH

from python_udfs.ingestion.declared.table_source import Declaration, table_source
from python_udfs.ingestion.formats.registry import FORMATS
from python_udfs.ingestion.tables.log_resets import WANTED as RESET_KEYS
from python_udfs.ingestion.tables.log_resets import log_resets
from python_udfs.targets import KINDS
from tests.support.dbt_project import REPO, DbtProject
from tools.__main__ import cli

DOCS = REPO / "docs"
README = REPO / "README.md"
# pages that may name settings; the two others speak of the code as well
USER_PAGES = [README, *sorted(DOCS.rglob("*.md"))]
PAGES = [*USER_PAGES, REPO / "CONTRIBUTING.md", REPO / "SECURITY.md"]
LONGEST_README = 200  # lines
LONGEST_LINE = 100  # characters of prose
ENGINE_MACROS = "python_udfs/sparksession_adapter/dbt/include/sparksession/macros"
# idioms of a private language; a page uses plain words
IDIOMS = re.compile(r"\b(?:told|said|anew|retold|let hold|untold)\b", re.IGNORECASE)
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
# what the environment gives programs of others
NOT_OURS = {
    "DBT_PROFILES_DIR",
    "DBT_TARGET_PATH",
    "JAVA_HOME",
    "PYSPARK_PYTHON",
    "SPARK_HOME",
    "SPARK_SUBMIT_OPTS",
    "SSL_CERT_FILE",
}
# dbt's own functions, Jinja's and SQL's, which pages call beside the project's macros
CALLS_OF_OTHERS = {"config", "var", "doc", "env_var", "return"}


@cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return page.relative_to(REPO).as_posix()


def reference(name: str) -> str:
    return text_of(DOCS / "reference" / f"{name}.md")


def prose(text: str) -> str:
    """A page without its code blocks."""
    return FENCE.sub("", text)


def blocks(text: str, *languages: str) -> list[str]:
    return [body for language, body in FENCE.findall(text) if language in languages]


def first_cells(text: str) -> list[str]:
    """Names in back quotes in the first cell of each row of a page's tables."""
    rows = [line for line in prose(text).splitlines() if line.startswith("| ")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])]


# ---- form -----------------------------------------------------------------------------------


def overlong_lines(text: str) -> list[str]:
    lines = prose(text).splitlines()
    return [line for line in lines if len(line) > LONGEST_LINE and not line.startswith("|")]


def test_the_readme_is_short() -> None:
    assert len(text_of(README).splitlines()) <= LONGEST_README


@pytest.mark.parametrize("page", USER_PAGES, ids=name_of)
def test_a_page_is_plain_text_of_short_lines(page: Path) -> None:
    assert overlong_lines(text_of(page)) == []
    assert IDIOMS.findall(text_of(page)) == []


def test_every_page_stands_in_the_index() -> None:
    linked = {target for _, target in links(text_of(DOCS / "index.md"))}
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"index.md"}
    assert pages - linked == set()


# ---- links ----------------------------------------------------------------------------------


def links(text: str) -> list[tuple[str, str]]:
    return re.findall(r"\[([^\]]*)\]\(([^)\s]+)\)", prose(text))


def anchors(text: str) -> set[str]:
    """Anchors of a page's headings, as GitHub and mkdocs make them."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.lower())
        found.add(plain.strip().replace(" ", "-"))
    return found


def dead_links(page: Path, text: str) -> list[str]:
    dead = []
    for _, target in links(text):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        there = other.exists() and REPO in other.parents
        if there and anchor:
            there = anchor in anchors(text if other == page else text_of(other))
        if not there:
            dead.append(target)
    return dead


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_anchors_are_there(page: Path) -> None:
    assert dead_links(page, text_of(page)) == []


FOLDERS = "benchmarks|docs|landing|macros|models|profiles|python_udfs|seeds|snapshots|tests|tools"


def missing_files(text: str) -> list[str]:
    """Paths of the project that a page names and that aren't there; a page may add some."""
    own = set(re.findall(r"Write this to `([^`]+)`", text))
    named = set(re.findall(rf"`((?:{FOLDERS})/[\w./-]*)(?:::\w+)?`", prose(text)))
    return sorted(name for name in named - own if not (REPO / name).exists())


@pytest.mark.parametrize("page", [*USER_PAGES, REPO / "SECURITY.md"], ids=name_of)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    assert missing_files(text_of(page)) == []


# ---- make, operations, selectors ------------------------------------------------------------


def make_targets() -> set[str]:
    listed = re.search(r"^\.PHONY: (.+)$", text_of(REPO / "Makefile"), re.MULTILINE)
    assert listed
    return set(listed[1].split())


def operations() -> set[str]:
    return {path.stem for path in (REPO / ENGINE_MACROS / "operations").glob("*.sql")}


def tools_commands() -> set[str]:
    """What `python -m tools` can be asked for; a module below it does nothing when it is run."""
    return set(cli.commands)


def selectors() -> set[str]:
    return {
        selector["name"]
        for selector in yaml.safe_load(text_of(REPO / "selectors.yml"))["selectors"]
    }


def unknown_commands(text: str) -> list[str]:
    """Targets of make, operations and selectors that a page names, and that aren't there."""
    # in code alone: `make` is a word too
    short = re.findall("`([^`]+)`", prose(text))
    code = "\n".join([*(body for _, body in FENCE.findall(text)), *short])
    named = set(re.findall(r"(?:^|[\s|])make ([a-z][\w-]*)", code, re.MULTILINE))
    run = set(re.findall(r"run-operation ([a-z]\w*)", code))
    chosen = set(re.findall(r"--selector ([a-z]\w*)", code))
    # also as a list of words, as a container is given them
    flat = re.sub(r"""["',]+ *""", " ", code)
    modules = set(re.findall(r"python -m (tools\S* ?[a-z-]*)", flat))
    return sorted(
        (named - make_targets())
        | (run - operations())
        | (chosen - selectors())
        | {module for module in modules if module.rpartition(" ")[2] not in tools_commands()}
    )


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_that_a_page_names_are_there(page: Path) -> None:
    assert unknown_commands(text_of(page)) == []


def test_every_command_stands_on_the_page_of_operations() -> None:
    page = reference("operations")
    cells = first_cells(page)
    listed = {cell.split()[1] for cell in cells if cell.startswith("make ")}
    assert listed == make_targets()
    assert (operations() | selectors()) - set(cells) == set()


# ---- environment variables ------------------------------------------------------------------


@cache
def code_texts(*folders: str) -> str:
    files = [
        path
        for folder in folders
        for path in sorted((REPO / folder).rglob("*"))
        if path.suffix in (".py", ".yml", ".sql") and "__pycache__" not in path.parts
    ]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


ENVIRONMENT = re.compile(
    r"""(?:env_var\(|environ(?:\.(?:get|setdefault|pop))?[\[(]|environment\(|envvar=)\s*f?["']([A-Z][A-Z_]+)["']"""
)


@cache
def variables() -> frozenset[str]:
    """Environment variables that the project reads, without those of its tests."""
    text = code_texts("profiles", "models", "macros", "python_udfs", "tools")
    found = set(ENVIRONMENT.findall(text)) - {"PYTHONPATH"}
    # names that a constant holds
    for name in ("KAFKA_OPTIONS", "WAREHOUSE_UMASK"):
        assert f'"{name}"' in text
        found.add(name)
    # of a target: its name stands between
    of_targets = re.findall(r"""\bsetting\(target, ["'](\w+)["']""", text)
    assert of_targets
    return frozenset(found | {f"PUBLISH_<NAME>_{target}" for target in of_targets})


@cache
def variables_of_tests() -> frozenset[str]:
    return frozenset(ENVIRONMENT.findall(code_texts("tests", "benchmarks")))


def general(variable: str) -> str:
    """A variable of one target, or of a file that holds a secret, as the code reads it."""
    variable = variable.removesuffix("_FILE")
    match = re.fullmatch(r"PUBLISH_(?:[A-Z]+|<NAME>)_([A-Z]+)", variable)
    return f"PUBLISH_<NAME>_{match[1]}" if match else variable


def unknown_variables(text: str) -> list[str]:
    known = variables() | variables_of_tests() | NOT_OURS
    name = r"[A-Z]+(?:_(?:[A-Z]+|<NAME>))+"
    in_quotes = re.findall(rf"`({name})(?:=[^`]*)?`", text)
    given = [
        match for _, body in FENCE.findall(text) for match in re.findall(rf"\b({name})=", body)
    ]
    return sorted(
        {in_quote for in_quote in [*in_quotes, *given] if not {in_quote, general(in_quote)} & known}
    )


@pytest.mark.parametrize("page", [*USER_PAGES, REPO / "SECURITY.md"], ids=name_of)
def test_environment_variables_that_a_page_names_are_read(page: Path) -> None:
    assert unknown_variables(text_of(page)) == []


def test_every_environment_variable_stands_on_its_page() -> None:
    listed = {
        first_cell
        for first_cell in first_cells(reference("environment"))
        if first_cell != "<variable>_FILE"
    }
    assert variables() - listed == set()
    assert listed - variables() - NOT_OURS == set()


# ---- vars -----------------------------------------------------------------------------------


@cache
def project_vars() -> frozenset[str]:
    return frozenset(yaml.safe_load(text_of(REPO / "dbt_project.yml"))["vars"])


def unknown_vars(text: str) -> list[str]:
    """Vars that a page sets on a command line or in YAML, and that nothing reads."""
    named = set()
    for options in re.findall(r"--vars '([^']*)'", " ".join(text.split())):
        options = options.replace("..", "x")
        given = yaml.safe_load(options if options.startswith("{") else f"{{{options}}}")
        named.update(given)
    for block in blocks(text, "yaml"):
        found = yaml.safe_load(block)
        named.update((found.get("vars") or {}) if isinstance(found, dict) else {})
    return sorted(named - project_vars() - COMMAND_VARS)


@pytest.mark.parametrize("page", USER_PAGES, ids=name_of)
def test_vars_that_a_page_sets_are_read(page: Path) -> None:
    assert unknown_vars(text_of(page)) == []


def test_every_var_stands_on_its_page() -> None:
    assert set(first_cells(reference("vars"))) == project_vars() | COMMAND_VARS


# ---- macros ---------------------------------------------------------------------------------


@cache
def macros() -> dict[str, tuple[str, ...]]:
    """Public macro -> its arguments, the project's and the adapter's."""
    found = {}
    for root in ("macros", ENGINE_MACROS):
        for path in (REPO / root).rglob("_macros.yml"):
            for macro in yaml.safe_load(path.read_text(encoding="utf-8"))["macros"]:
                found[macro["name"]] = tuple(each["name"] for each in macro.get("arguments") or ())
    return found


def unknown_macros(text: str) -> list[str]:
    """Macros that a page calls in Jinja, and that aren't there; those of a tutorial are its own."""
    own = set(re.findall(r"{% macro (\w+)\(", text))
    called = set()
    for expression in re.findall(r"{{(.*?)}}", text, re.DOTALL):
        called.update(re.findall(r"(?<![\w.'\"])([a-z_]+)\(", expression))
    return sorted(called - own - set(macros()) - CALLS_OF_OTHERS)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_macros_that_a_page_calls_are_there(page: Path) -> None:
    assert unknown_macros(text_of(page)) == []


def inside(text: str, start: int) -> str:
    """What stands between the parenthesis at `start` - 1 and its own end, without inner
    parentheses."""
    depth, found = 1, []
    for character in text[start:]:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(character, 0)
        if depth == 0:
            break
        if depth == 1:
            found.append(character)
    return "".join(found)


def unknown_arguments(text: str) -> list[str]:
    """Named arguments of macros that a page gives, and that the macros don't take."""
    wrong = []
    for match in re.finditer(r"(?<![\w.'\"])([a-z_]+)\(", text):
        given = re.findall(r"(?:^|[,\s])(\w+)=(?!=)", inside(text, match.end()))
        known = macros().get(match[1])
        if known and match[1] not in ("ref", "source"):
            wrong += [f"{match[1]}({name}=..)" for name in given if name not in known]
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_arguments_that_a_page_gives_to_macros_are_taken(page: Path) -> None:
    assert unknown_arguments(text_of(page)) == []


def macro_rows(text: str) -> dict[str, tuple[str, ...]]:
    """Macro -> its arguments, as the page of macros lists them."""
    found = {}
    for line in text.splitlines():
        cells = line.strip("|").split("|")
        if line.startswith("| `") and len(cells) > 2:
            names = re.findall("`([^`]+)`", cells[0])
            found |= dict.fromkeys(names, tuple(re.findall("`([^`]+)`", cells[1])))
    return found


def test_the_page_of_macros_lists_each_with_its_arguments() -> None:
    of_operations = {name: given for name, given in macros().items() if name in operations()}
    others = {name: given for name, given in macros().items() if name not in operations()}
    assert macro_rows(reference("macros")) == others
    listed = macro_rows(reference("operations"))
    assert {name: listed.get(name) for name in of_operations} == of_operations


# ---- declarations ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "settings"),
    [
        ("source-declaration", {*Declaration.model_fields, *RESET_KEYS}),
        ("keyed-tables", set(FoldSettings.model_fields)),
        ("zippers", set(ZipperSettings.model_fields)),
        ("publication-targets", {*KINDS, *KEYS_OF_PUBLISH}),
    ],
)
def test_every_setting_of_a_declaration_stands_on_its_page(page: str, settings: set[str]) -> None:
    assert settings - set(first_cells(reference(page))) == set()


def test_every_strategy_and_meta_config_stands_on_its_page() -> None:
    page = reference("reading")
    strategies = [
        match[1] for name in macros() if (match := re.fullmatch(r"get_incremental_(\w+)_sql", name))
    ]
    assert len(strategies) > 2
    assert [name for name in strategies if name not in first_cells(page)] == []
    assert [name for name in OTHER_META if f"`meta: {{{name}: " not in page] == []


def test_every_function_of_a_fold_stands_on_its_page() -> None:
    page = reference("keyed-tables")
    assert [
        name for name in (*get_args(Function), *get_args(OnDelete)) if f"`{name}`" not in page
    ] == []


def test_every_option_of_a_format_stands_on_its_page() -> None:
    found = {
        (cells[0].strip("| `"), cells[1].strip("`")): re.findall("`([^`]+)`", cells[2])
        for line in reference("source-declaration").splitlines()
        if len(cells := line.split(" | ")) == 3
    }
    for name, module in FORMATS.items():
        assert f"`{name}`" in reference("source-declaration")
        for option, values in getattr(module, "OPTIONS", {}).items():
            assert found[name, option] == list(values)


def test_every_meta_table_stands_on_its_page() -> None:
    sources = yaml.safe_load(text_of(REPO / "models" / "meta" / "_meta__sources.yml"))["sources"]
    tables = {table["name"] for source in sources for table in source["tables"]}
    tables |= {path.stem for path in (REPO / "models" / "meta").glob("*.sql")}
    assert set(first_cells(reference("meta-tables"))) == tables


def table_names() -> set[str]:
    return {
        path.stem for root in ("models", "snapshots", "seeds") for path in (REPO / root).rglob("*")
    } | {
        name
        for path in (REPO / "models").rglob("_*.yml")
        for name in re.findall(r"- name: (\w+)", path.read_text(encoding="utf-8"))
    }


def unknown_models(text: str) -> list[str]:
    """Models in back quotes or in a `ref` that aren't there; those that a page adds are its own."""
    own = set(re.findall(r"Write this to `[\w/]+/(\w+)\.\w+`", text))
    name = r"(?:ods|dwd|dws|dqc|dim|meta)_[a-z]\w*"
    named = set(re.findall(rf"`(?:\w+\.)?({name})(?:\.sql|\.py)?`", text))
    named |= set(re.findall(rf"ref\('({name})'\)", text))
    return sorted(named - own - table_names())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_models_that_a_page_names_are_there(page: Path) -> None:
    assert unknown_models(text_of(page)) == []


def sources_in(value: Any) -> Iterable[dict[str, Any]]:
    """Each `meta.source` in what a block of YAML holds."""
    if isinstance(value, dict):
        if isinstance(source := (value.get("meta") or {}).get("source"), dict):
            yield source
        for item in value.values():
            yield from sources_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from sources_in(item)


def rendered(source: dict[str, Any]) -> dict[str, Any]:
    """A declaration with the project's vars in the place of its Jinja."""
    given = yaml.safe_load(text_of(REPO / "dbt_project.yml"))["vars"]
    found = {}
    for key, value in source.items():
        match = re.search(r"var\('(\w+)'\)", value) if isinstance(value, str) else None
        found[key] = given[match[1]] if match else value
    return found


def wrong_yaml(text: str) -> list[str]:
    """Blocks that aren't YAML, and declarations that the project itself refuses."""
    problems = []
    for block in blocks(text, "yaml"):
        try:
            found = yaml.safe_load(block)
        except yaml.YAMLError as exc:
            problems.append(str(exc))
            continue
        for source in sources_in(found):
            try:
                table_source("page", rendered(source))
            except ValueError as exc:
                problems.append(str(exc))
        resets = (found.get("vars") or {}).get("shop_log_resets") if type(found) is dict else None
        if resets:
            problems += log_resets(resets, FORMATS["maxwell"])[1]
    return problems


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_yaml_parses_and_declarations_are_right(page: Path) -> None:
    assert wrong_yaml(text_of(page)) == []


def test_pages_have_declarations_to_check() -> None:
    found = [
        source
        for page in USER_PAGES
        for block in blocks(text_of(page), "yaml")
        for source in sources_in(yaml.safe_load(block))
    ]
    assert len(found) >= 2


# ---- the glossary ---------------------------------------------------------------------------


def glossary(text: str) -> dict[str, tuple[str, str]]:
    """Term -> its source, and the page that explains it."""
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    return {row[0]: (row[2], row[3]) for row in cells}


def forms_of(term: str) -> list[str]:
    """The words that a term may be met as: each part of a list, without what is in brackets."""
    plain = re.sub(r"\(([^)]*)\)", r", \1", term)
    return [part.strip() for part in plain.split(",") if part.strip()]


def unused_terms(terms: Iterable[str], text: str) -> list[str]:
    text = " ".join(text.split()).lower()
    unused = []
    for term in terms:
        for form in forms_of(term):
            # a suffix or a sign stands within a name or beside others
            start = r"\b" if form[0].isalnum() else ""
            if not re.search(start + re.escape(form.lower()), text):
                unused.append(form)
    return unused


def test_every_term_has_a_source_and_a_page() -> None:
    terms = glossary(text_of(DOCS / "glossary.md"))
    assert len(terms) > 40
    assert [name for name, (source, page) in terms.items() if not source or not links(page)] == []


def test_every_term_is_used() -> None:
    terms = glossary(text_of(DOCS / "glossary.md"))
    pages = [page for page in PAGES if page.name != "glossary.md"]
    assert unused_terms(terms, "\n".join(text_of(page) for page in pages)) == []


def test_every_term_is_used_on_the_page_that_explains_it() -> None:
    unexplained = []
    for term, (_, page) in glossary(text_of(DOCS / "glossary.md")).items():
        for _, target in links(page):
            text = text_of(DOCS / target.partition("#")[0])
            if len(unused_terms([term], text)) == len(forms_of(term)):
                unexplained.append(f"{term}: {target}")
    assert unexplained == []


# ---- tutorials ------------------------------------------------------------------------------


def test_the_count_of_the_tutorial_compiles(tmp_path: Path) -> None:
    """tests/e2e/test_sources.py builds the table of the other tutorial."""
    root = tmp_path / "project"
    left_out = (".*", "tests", "target", "logs", "warehouse", "benchmarks", "docs", "__pycache__")
    shutil.copytree(REPO, root, ignore=shutil.ignore_patterns(*left_out))
    text = text_of(DOCS / "tutorial" / "your-first-count.md")
    files = re.findall(r"Write this to `([^`]+)`", text)
    assert len(files) == len(blocks(text, "sql")) == 3
    for file, body in zip(files, blocks(text, "sql"), strict=True):
        assert not (root / file).exists()
        (root / file).write_text(body, encoding="utf-8")
    named = [Path(file).stem for file in files if file.startswith("models/")]
    assert f"run -s {' '.join(named)}\n" in text

    project = DbtProject(root, tmp_path / "warehouse")
    done = project.run("compile", "--target", "ci", "--select", *named)

    compiled = {result.node.name: result.node.compiled_code for result in done.raw.results}
    assert sorted(compiled) == sorted(named)
    assert all("order_count" in sql and "product_type" in sql for sql in compiled.values())


# ---- each check finds a mistake -------------------------------------------------------------

SOURCE = """```yaml
meta:
  source: {database: shop, table: t, primary_key: [id], columns: {id: KIND}}
```
"""


@pytest.mark.parametrize(
    ("check", "wrong", "right"),
    [
        (overlong_lines, "word " * 30, "word " * 10),
        (unknown_commands, "`make cofee`", "`make run`"),
        (unknown_commands, "```\ndbt run-operation rollback\n```", "`run-operation roll_back`"),
        (unknown_commands, "`dbt build --selector dayly`", "`dbt build --selector daily`"),
        (
            unknown_commands,
            "```yaml\ncommand: [.venv/bin/python, -m, tools.follow, --check, live]\n```",
            "```yaml\ncommand: [.venv/bin/python, -m, tools, follow, --check, live]\n```",
        ),
        (unknown_commands, "`python -m tools folow`", "`python -m tools follow --check live`"),
        (unknown_variables, "`KAFKA_SERVER`", "`KAFKA_SERVERS`"),
        (unknown_variables, "```\nMYSQL_URI=x\n```", "```\nMYSQL_URL=x MYSQL_PASSWORD_FILE=y\n```"),
        (unknown_variables, "`PUBLISH_SERVING_LOGIN`", "`PUBLISH_SERVING_PASSWORD`"),
        (unknown_vars, "`--vars 'holdback: true'`", "`--vars 'hold_back: true'`"),
        (
            unknown_vars,
            "```yaml\nvars:\n  batchs: [live]\n```",
            "```yaml\nvars:\n  batches: []\n```",
        ),
        (unknown_macros, "{{ new_row(ref('x')) }}", "{{ new_rows(ref('x')) }}"),
        (unknown_arguments, "tumble(rows=ref('x'), length='1 hour')", "tumble(rows=ref('x'))"),
        (missing_files, "`macros/daily_cut/to_day.sql`", "`macros/daily_cut/to_date.sql`"),
        (unknown_models, "`dws_trade__user_states_td`", "`dws_trade__user_status_td`"),
        (wrong_yaml, "```yaml\na: [1\n```", "```yaml\na: [1]\n```"),
        (wrong_yaml, SOURCE.replace("KIND", "money"), SOURCE.replace("KIND", "int")),
    ],
)
def test_a_mistake_is_found(check: Any, wrong: str, right: str) -> None:
    assert check(wrong) != []
    assert check(right) == []


def test_dead_links_and_unused_terms_are_found() -> None:
    assert dead_links(README, "[a](docs/nowhere.md) [b](docs/glossary.md#nothing) [c](#none)") == [
        "docs/nowhere.md",
        "docs/glossary.md#nothing",
        "#none",
    ]
    assert dead_links(README, "# One\n[a](docs/index.md) [b](#one) [c](https://x.org/)") == []
    assert unused_terms(["lease", "+I, -U"], "the Lease of +I") == ["-U"]
    assert IDIOMS.search("the version is told") and not IDIOMS.search("the version is named")
