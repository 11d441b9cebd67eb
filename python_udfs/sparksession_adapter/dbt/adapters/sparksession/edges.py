"""Types of what comes in from outside: of dbt, of py4j, and of YAML and JSON. `Any` stands here for
them, so that a signature names what it is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Node: TypeAlias = Mapping[str, Any]  # a node of dbt's graph as a mapping, or a context's `model`
Graph: TypeAlias = dict[str, Any]  # dbt's graph: nodes, sources, ..
Context: TypeAlias = dict[str, Any]  # names that a macro sees -> what they are
Settings: TypeAlias = Mapping[str, Any]  # a mapping of YAML, of JSON or of a macro's argument
Json: TypeAlias = dict[str, Any]  # the same, as it is handed to macros or written as JSON
Given: TypeAlias = Any  # a value of YAML or of a macro's argument, before it is checked
Foreign: TypeAlias = Any  # an object of dbt's or Spark's: manifest, parsed node, session, schema
