"""Places where one small change of the code makes a mutant of it.

A macro is changed as text, Python by its syntax tree; SQL within Python's strings as text too.
Comments, docstrings, errors and log lines are left alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Site:
    """One change of one file.

    Attributes:
        file: path below the root.
        begin, end: characters that are replaced.
        wrong: what replaces them.
        kind: what the change is, such as `null-safe equality`.
        line: text of the line, without the white space around it.
        number: of several equal changes of equal lines of a file, which, from 1.
    """

    file: str
    begin: int
    end: int
    right: str
    wrong: str
    kind: str
    line: str
    number: int = 1

    def __str__(self) -> str:
        number = f" ({self.number})" if self.number > 1 else ""
        return (
            f"{self.file}: {self.kind}: {self.right!r} -> {self.wrong!r} in `{self.line}`{number}"
        )

    def changed(self, root: Path) -> str:
        """The file's text with the change."""
        text = (root / self.file).read_text(encoding="utf-8")
        assert text[self.begin : self.end] == self.right, f"{self}: the file has changed"
        return text[: self.begin] + self.wrong + text[self.end :]

    def can_be_read(self, root: Path) -> bool:
        """Whether the changed file is still Python; a macro always is text."""
        try:
            return not self.file.endswith(".py") or bool(ast.parse(self.changed(root)))
        except SyntaxError:
            return False

    def put_into(self, root: Path) -> None:
        """Change the file below a root."""
        (root / self.file).write_text(self.changed(root), encoding="utf-8")


Change = tuple[int, int, str, str]  # begin, end, what replaces it, kind

# pattern, what replaces it, kind
TEXT_CHANGES: tuple[tuple[str, str, str], ...] = (
    (r"<=>", "=", "null-safe equality"),
    (r"(?<= )<(?= )", "<=", "bound"),
    (r"(?<= )<=(?= )", "<", "bound"),
    (r"(?<= )>(?= )", ">=", "bound"),
    (r"(?<= )>=(?= )", ">", "bound"),
    (r" [+-] 1\b(?!\.)", "", "off by 1"),
    (r"\bleast\(", "greatest(", "least and greatest"),
    (r"\bgreatest\(", "least(", "least and greatest"),
    (r"(?<![\w.])min\(", "max(", "min and max"),
    (r"(?<![\w.])max\(", "min(", "min and max"),
    (r"\bmin_by\(", "max_by(", "min and max"),
    (r"\bmax_by\(", "min_by(", "min and max"),
    (r"\bis not null\b", "is null", "null and not null"),
    (r"\bis null\b", "is not null", "null and not null"),
    (r"\bleft anti join\b", "left semi join", "anti and semi join"),
    (r"\bleft semi join\b", "left anti join", "anti and semi join"),
    (r"\binner join\b", "left join", "kind of join"),
    (r"\bleft join\b", "inner join", "kind of join"),
    (r"\bunion all\b", "union", "union"),
    (r" desc\b", "", "descending"),
)
_COMMENT = re.compile(r"\{#.*?#\}|(?<![\w'])--[^\n]*", re.DOTALL)
_ERROR = re.compile(r"raise_compiler_error\(|exceptions\.\w+\(|\blog\(|\bwarn\(")


def _balanced(text: str, begin: int) -> int | None:
    """Where the bracket that opens at `begin` closes, else None."""
    depth = 0
    for place in range(begin, len(text)):
        if text[place] in "([{":
            depth += 1
        elif text[place] in ")]}":
            depth -= 1
            if depth == 0:
                return place
    return None


def _arguments(text: str, begin: int) -> list[tuple[int, int]] | None:
    """Begin and end of each argument of the call whose bracket opens at `begin`."""
    end = _balanced(text, begin)
    if end is None:
        return None
    found, depth, start = [], 0, begin + 1
    for place in range(begin + 1, end):
        if text[place] in "([{":
            depth += 1
        elif text[place] in ")]}":
            depth -= 1
        elif text[place] == "," and depth == 0:
            found.append((start, place))
            start = place + 1
    return [*found, (start, end)]


def changes_of_sql(text: str) -> Iterator[Change]:
    """Changes of SQL, as it is or with Jinja in it."""
    for pattern, wrong, kind in TEXT_CHANGES:
        for match in re.finditer(pattern, text):
            yield match.start(), match.end(), wrong, kind
    for match in re.finditer(r"\bcoalesce\(", text):
        arguments = _arguments(text, match.end() - 1)
        if arguments is not None and len(arguments) > 1:
            begin, end = arguments[0]
            yield match.start(), arguments[-1][1] + 1, f"({text[begin:end].strip()})", "coalesce"
    for match in re.finditer(r"\b(?:max_by|min_by|nullif|datediff)\(", text):
        arguments = _arguments(text, match.end() - 1)
        if arguments is not None and len(arguments) == 2:
            first, second = (text[begin:end].strip() for begin, end in arguments)
            yield arguments[0][0], arguments[1][1], f"{second}, {first}", "arguments turned round"
    for match in re.finditer(r"(?m)(?<=\n)[ ]*(?:and|or) [^\n]*", text):
        if all(match[0].count(item) == match[0].count(two) for item, two in ("()", "[]", "{}")):
            yield match.start(), match.end(), "", "condition dropped"
    for match in re.finditer(r"\border by ([^()\n]+?)(?=\)|\n)", text):
        columns = match[1].split(",")
        if len(columns) > 1:
            yield match.start(1), match.end(1), ",".join(columns[:-1]), "tie-break dropped"


def _spared(text: str) -> list[tuple[int, int]]:
    """Comments, and calls that raise or print."""
    found = [match.span() for match in _COMMENT.finditer(text)]
    for match in _ERROR.finditer(text):
        end = _balanced(text, match.end() - 1)
        found.append((match.start(), end if end is not None else match.end()))
    return found


def _changes_of_macro(text: str) -> Iterator[Change]:
    spared = _spared(text)
    for change in changes_of_sql(text):
        if not any(begin <= change[0] < end for begin, end in spared):
            yield change


# ---- Python -------------------------------------------------------------------------------

_COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
_COMPARED |= {ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in"}
_SYMBOLS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_SYMBOLS |= {ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}
_OTHER_NAME = {"min": "max", "max": "min", "least": "greatest", "greatest": "least"}
_OTHER_NAME |= {"min_by": "max_by", "max_by": "min_by", "any": "all", "all": "any"}
_PRINTS = {"warning", "warn", "info", "debug", "error", "fire_event", "print"}


class _Python(ast.NodeVisitor):
    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[Change] = []
        starts, place = [0], 0
        for line in text.encode().split(b"\n"):
            place += len(line) + 1
            starts.append(place)
        self._starts = starts
        self._bytes = text.encode()

    def _at(self, line: int, column: int) -> int:
        return len(self._bytes[: self._starts[line - 1] + column].decode())

    def _span(self, node: ast.AST) -> tuple[int, int]:
        begin = self._at(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return begin, self._at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _replace(self, node: ast.AST, wrong: str, kind: str) -> None:
        self.found.append((*self._span(node), wrong, kind))

    def _source(self, node: ast.AST) -> str:
        begin, end = self._span(node)
        return self.text[begin:end]

    # what is left alone

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.visit(node.value)

    # what is changed

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            begin, end = self._span(left)[1], self._span(right)[0]
            symbol, wrong = _SYMBOLS[type(operator)], _COMPARED[type(operator)]
            place = self.text.find(symbol, begin, end)
            if place >= 0:
                self.found.append((place, place + len(symbol), wrong, "comparison"))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        values = [self._source(value) for value in node.values]
        word = " and " if isinstance(node.op, ast.And) else " or "
        for place in range(len(values)):
            kept = word.join(values[:place] + values[place + 1 :])
            self._replace(node, f"({kept})", "condition dropped")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace(node, f"({self._source(node.operand)})", "not dropped")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        is_one = isinstance(node.right, ast.Constant) and node.right.value == 1
        if is_one and isinstance(node.op, ast.Add | ast.Sub):
            self._replace(node, self._source(node.left), "off by 1")
        if isinstance(node.op, ast.BitAnd):
            for side in (node.left, node.right):
                self._replace(node, f"({self._source(side)})", "condition dropped")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name in _PRINTS or name.endswith(("Error", "Warning")):
            return
        if name in _OTHER_NAME:
            end = self._span(node.func)[1]
            self.found.append((end - len(name), end, _OTHER_NAME[name], "min and max"))
        if name == "coalesce" and len(node.args) > 1 and not isinstance(node.args[0], ast.Starred):
            self._replace(node, f"({self._source(node.args[0])})", "coalesce")
        is_plain = not node.keywords and not any(isinstance(a, ast.Starred) for a in node.args)
        if (
            len(node.args) == 2
            and is_plain
            and name not in ("isinstance", "cast", "zip", "getattr")
        ):
            first, second = map(self._source, node.args)
            begin, end = self._span(node.args[0])[0], self._span(node.args[1])[1]
            self.found.append((begin, end, f"{second}, {first}", "arguments turned round"))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and " " in node.value:
            begin, end = self._span(node)
            for place, until, wrong, kind in changes_of_sql(self.text[begin:end]):
                self.found.append((begin + place, begin + until, wrong, kind))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        begin, end = self._span(node)
        for place, until, wrong, kind in changes_of_sql(self.text[begin:end]):
            self.found.append((begin + place, begin + until, wrong, kind))


def _changes_of_python(text: str) -> Iterator[Change]:
    visitor = _Python(text)
    visitor.visit(ast.parse(text))
    yield from visitor.found


def sites(root: Path, file: str) -> list[Site]:
    """All sites of a file below a root, in the order of their places."""
    text = (root / file).read_text(encoding="utf-8")
    changes: Callable[[str], Iterator[Change]]
    changes = _changes_of_python if file.endswith(".py") else _changes_of_macro
    found, seen = [], dict[tuple[str, ...], int]()
    for begin, end, wrong, kind in sorted(set(changes(text))):
        line = text[text.rfind("\n", 0, begin) + 1 :].lstrip("\n").partition("\n")[0].strip()
        right = text[begin:end]
        if right == wrong:  # equal arguments turned round
            continue
        key = (kind, right, wrong, line)
        seen[key] = seen.get(key, 0) + 1
        found.append(Site(file, begin, end, right, wrong, kind, line, seen[key]))
    return found
