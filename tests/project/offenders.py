"""What the code still has against the rules of its shape and its language.

`offenders.txt` lists what was there when these rules came. `test_house_rules.py` compares it with
the files: nothing may be added, and what is mended leaves the list, by
`.venv/bin/python -m tests.project.offenders`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.support.dbt_project import REPO

LIST = Path(__file__).parent / "offenders.txt"
HEAD = (
    "# rule, file, detail, how often. Only to be shortened, see tests/project/offenders.py\n"
    "# after a merge: take either side, then .venv/bin/python -m tests.project.offenders\n"
)
# (rule, file, detail) -> how often
Offenders = Counter[tuple[str, str, str]]

MOST_PARAMETERS = 6
MOST_LINES = 500
# how the head of a longer file begins the sentence that gives the reason
LONG_BECAUSE = re.compile(r"\bLonger than 500 lines: \w+ \w+ \w+")

# phrases, by what stands for them in the list -> pattern over text without line breaks
IDIOMS = {
    "is told": r"\b(?:is|are|was|were|be|been|being) told\b",
    "what tells": r"\bwhat (?:tells|told)\b",
    "tells of": r"\b(?:tell|tells|telling|told) of\b",
    "says so": r"\b(?:say|says|saying|said) so\b",
    "anew": r"\banew\b",
    "that is none": r"\b(?:that|which|who|whose \w+) (?:is|are|was|were) none\b",
    "; None: ": r"; None: ",
    "the one whose": r"\bones? whose\b",
    "let hold": r"\blet (?:hold|go|write)\b",
    "who reads it": r"\bwho (?:reads|asks|calls|comes|wants|adds) (?:it|them|this)\b",
    "told apart": r"\b(?:tell|tells|told)(?: \w+)? apart\b",
    "nothing but the": r"\bnothing but the\b",
    "is no setting; there are": r"\bis no \w+; there (?:are|is)\b",
    "counted as dead": r"\bcount(?:s|ed)? as (?:dead|gone|lost)\b",
    # "he said" is a text of the test data
    "tells, told, says, said": r"\b(?:tells|told|says|(?<!he )said)\b",
    # "one" for a thing: no noun follows
    "one": r"\bones\b"
    r"|\b(?:the|an?|this|that|these|those|each|every|no|any|which|another|other|only|same|such|own"
    r"|first|second|last|next|old|older|new|newer|earlier|later|wrong|right|single|whole|plain)"
    r" one\b(?=[.,;:)\]\"'`!?]|$| (?:that|which|who|whose|of|is|isn't|was|has|had|does|did|may"
    r"|must|can|will|be|are|with|in|by|for|to|from|and|or|at|on|as|than|before|after|above|below"
    r"|there|here|where|when|it)\b)",
}
# names that were given up, wherever they stand
OLD_NAMES = re.compile(
    r"\b(?:rows_once|_judged|_said|bears_retold|retold|let_write|let_go|kept_rows|within_ranges"
    r"|key_is_none|meta_untaken\w*|announce_\w+|run_number)\b"
)
# names of three words and more in YAML and SQL: of unit tests, models, macros
SHORT_SENTENCE = re.compile(r"\b[a-z0-9]+(?:_[a-z0-9]+){2,}\b")
# names of values in Python that don't name what they hold
VAGUE_NAMES = {"told", "said", "one", "ones", "anew", "thing", "things"}

# Data, hashes, pictures and the history of versions aren't prose. The files with these rules
# quote them.
NO_PROSE = re.compile(
    r"landing/|seeds/.*\.csv$|tests/dbt/fixtures/|tests/fixtures/|.*\.(?:lock|gz|csv|json|png)$"
    r"|LICENSE$|NOTICE$|CHANGELOG\.md$"
    r"|tests/project/(?:offenders\.(?:py|txt)|test_house_rules\.py|test_pages\.py|engine_marks\.txt)$"
)
TYPED = ("python_udfs/", "tools/")  # what `make lint` checks with mypy
# what hands in values without types -> {reason, files in which `Any` may stand}
EDGES_FILE = Path(__file__).parent / "edges_of_types.yml"
EDGES: dict[str, dict[str, Any]] = yaml.safe_load(EDGES_FILE.read_text("utf-8"))
AT_AN_EDGE = {path for edge in EDGES.values() for path in edge["files"]}


def listed(text: str) -> Offenders:
    """The offenders that a list has."""
    found: Offenders = Counter()
    for line in text.splitlines():
        if line and not line.startswith("#"):
            rule, path, detail, times = line.split("\t")
            found[rule, path, detail] = int(times)
    return found


def written(offenders: Offenders) -> str:
    lines = ("\t".join((*where, str(times))) for where, times in sorted(offenders.items()))
    return HEAD + "".join(f"{line}\n" for line in lines)


def offenders_now() -> Offenders:
    """The offenders of all files under version control."""
    listed_files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPO, capture_output=True, check=True
    )
    found: Offenders = Counter()
    # git lists a file several times while a merge has conflicts in it
    for path in sorted(set(filter(None, listed_files.stdout.decode().split("\0")))):
        if NO_PROSE.match(path) or not (REPO / path).is_file():
            continue
        found += offenders_of(path, (REPO / path).read_text("utf-8"))
    return found


def offenders_of(path: str, text: str) -> Offenders:
    """The offenders of one file.

    Args:
        path: below the project's folder; its suffix and its first folder decide which rules hold.
        text: what the file holds.
    """
    found: Offenders = Counter()
    prose = _unbroken(text)
    for name, pattern in IDIOMS.items():
        found["idiom", path, name] += len(re.findall(pattern, prose, re.IGNORECASE))
    for name in OLD_NAMES.findall(text):
        found["name", path, name] += 1
    if path.endswith((".yml", ".sql")):
        for name in SHORT_SENTENCE.findall(text):
            found["name", path, name] += has_idiom(name)
    if path.endswith(".py"):
        tree = ast.parse(text)
        for name in _names(tree):
            found["name", path, name] += name in VAGUE_NAMES
            found["name", path, name] += has_idiom(name)
        for function, count in _long_signatures(tree):
            found["parameters", path, f"{function} {count}"] += 1
        if path.startswith(TYPED) and path not in AT_AN_EDGE:
            found["any", path, "Any"] += uses_of_any(tree)
        if text.count("\n") > MOST_LINES and not LONG_BECAUSE.search(ast.get_docstring(tree) or ""):
            found["lines", path, f"more than {MOST_LINES}"] += 1
    return +found


def has_idiom(name: str) -> bool:
    """Whether the words of a name have an idiom in them.

    >>> has_idiom("test_a_problem_is_told"), has_idiom("test_a_problem_is_reported")
    (True, False)
    """
    words = name.replace("_", " ")
    return any(re.search(pattern, words, re.IGNORECASE) for pattern in IDIOMS.values())


def _unbroken(text: str) -> str:
    """The text with each line break, and the sign of a comment after it, as one space."""
    return re.sub(r"[ \t]*\n[ \t]*+(?:#:? ?|-- ?|\{# ?)?", " ", text)


def _names(tree: ast.AST) -> Iterator[str]:
    """The names that a module gives: to variables, parameters, attributes, functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def _long_signatures(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(function, parameters) of those that take too many by position.

    The object or class of a method isn't counted. pytest calls tests and fixtures by the names of
    their parameters: theirs are none by position.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_pytests(node):
            continue
        names = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)]
        count = len(names) - (names[:1] in (["self"], ["cls"]))
        if count > MOST_PARAMETERS:
            yield node.name, count


def _is_pytests(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = (ast.unparse(decorator) for decorator in node.decorator_list)
    return node.name.startswith("test_") or any(
        decorator.startswith("pytest.fixture") for decorator in decorators
    )


def uses_of_any(tree: ast.AST) -> int:
    """How many annotations of parameters, results and variables have an `Any` in them."""
    return sum(
        any(isinstance(part, ast.Name) and part.id == "Any" for part in ast.walk(annotation))
        for annotation in _annotations(tree)
    )


def _annotations(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns


def more(than: Offenders, now: Offenders) -> list[str]:
    """What `now` has that `than` has not, a line each."""
    added: Iterable[tuple[tuple[str, str, str], int]] = sorted((now - than).items())
    return [f"{path}: {rule}: {detail} ({times} more)" for (rule, path, detail), times in added]


def without_mended_edges(text: str) -> str:
    """The list of edges without files that are gone or have no `Any` any more."""
    lines = []
    for line in text.splitlines():
        file = REPO / line.removeprefix("    - ")
        is_mended = line.startswith("    - ") and not (
            file.is_file() and uses_of_any(ast.parse(file.read_text("utf-8")))
        )
        if not is_mended:
            lines.append(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    current = offenders_now()
    grown = more(listed(LIST.read_text("utf-8")), current) if LIST.exists() else []
    if grown and "--grown" not in sys.argv:
        sys.exit("These would be added; mend them:\n" + "\n".join(grown))
    LIST.write_text(written(current), encoding="utf-8")
    EDGES_FILE.write_text(without_mended_edges(EDGES_FILE.read_text("utf-8")), encoding="utf-8")
