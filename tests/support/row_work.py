"""What a plan computes for each row, whatever the row holds.

Spark evaluates lazily what stands in a branch of CASE, COALESCE and IF, and what stands behind AND
and OR. But what stands twice, also behind these two, it computes once for each row beforehand. So a
check of few rows may cost each row as much as the decoding.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

# functions that parse or search a whole text, or are interpreted: Spark's class -> name in SQL
DEAR = {
    "JsonToStructs": "from_json",
    "GetJsonObject": "get_json_object",
    "RLike": "rlike",
    "RegExpReplace": "regexp_replace",
    "RegExpExtract": "regexp_extract",
    "RegExpExtractAll": "regexp_extract_all",
    "RegExpCount": "regexp_count",
    "Contains": "contains",
    "Lower": "lower",
    "ArrayTransform": "transform",
    "ArrayFilter": "filter",
    "ArrayExists": "exists",
    "MapFilter": "map_filter",
}
# how many children of these, from the first on, are evaluated for each row
LAZY = {"CaseWhen": 1, "If": 1, "Coalesce": 1}
SHORT = ("And", "Or")


@dataclass(frozen=True, eq=False)
class Expression:
    """A node of an expression, with its children and a text that is the same for equal nodes: the
    name of a column, or a hash."""

    name: str
    children: tuple[Expression, ...]
    text: str

    def parts(self) -> Iterator[Expression]:
        yield self
        for child in self.children:
            yield from child.parts()


def dear_work(frame: DataFrame, column: str) -> list[str]:
    """What each row pays for: dear functions over a column that stand in the frame's projections
    and are evaluated for each row, sorted; each function as often as it is evaluated.

    Args:
        column: name of the column that the functions read.
    """
    found: list[str] = []
    for projections in _projections(frame):
        certain: Counter[str] = Counter()
        behind: Counter[str] = Counter()
        dear: dict[str, Expression] = {}
        for expression in projections:
            _collect(expression, True, certain, behind)
            dear |= {part.text: part for part in expression.parts() if part.name in DEAR}
        for text, item in dear.items():
            is_paid = text in certain or behind[text] > 1
            if is_paid and any(part.text == column for part in item.parts()):
                found.append(DEAR[item.name])
    return sorted(found)


def _collect(
    node: Expression, is_certain: bool, certain: Counter[str], behind: Counter[str]
) -> None:
    (certain if is_certain else behind)[node.text] += 1
    if node.name == "LambdaFunction":
        return
    eager = node.children[: LAZY.get(node.name, len(node.children))]
    for place, child in enumerate(eager):
        _collect(child, is_certain and not (node.name in SHORT and place), certain, behind)


def _projections(frame: DataFrame) -> Iterator[list[Expression]]:
    """The expressions of each Project of the optimized plan."""
    plan = json.loads(frame._jdf.queryExecution().optimizedPlan().toJSON())
    for node in plan:
        if node["class"].endswith(".logical.Project"):
            yield [_tree(flat) for flat in node["projectList"]]


def _tree(flat: list[dict[str, Any]]) -> Expression:
    """A tree of its nodes in the order of their texts, each with the number of its children."""
    nodes = iter(flat)

    def read() -> Expression:
        node = next(nodes)
        children = tuple(read() for _ in range(node["num-children"]))
        name = node["class"].rsplit(".", 1)[-1]
        if name == "AttributeReference":
            return Expression(name, children, node["name"])
        own = {key: value for key, value in node.items() if key != "exprId"}
        text = json.dumps([name, own, *(child.text for child in children)])
        return Expression(name, children, hashlib.sha256(text.encode()).hexdigest())

    return read()
