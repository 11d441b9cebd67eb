"""Words for errors of Spark that have none."""

from __future__ import annotations

import re

TOP_FRAME = re.compile(r"^[\t ]*+at ([\w.$]++)\(([\w.:]*+)\)", re.MULTILINE)
# method that fails without a word -> why
KNOWN = {
    "parseRoutineParam": (
        "A function of SQL that takes parameters (create temporary function f(x int) ..) can't be "
        "made here: Iceberg's parser doesn't read them. Write a macro of dbt in its place."
    ),
}


def words_for(kind: str, stack: str) -> str:
    """A sentence for an error that has no message.

    Args:
        kind: name of its class.
        stack: Java's stack of it.

    >>> words_for("ClosedError", "x.ClosedError\\n\\tat a.b.Files.open(Files.java:7)")
    'Spark failed with ClosedError and no further word, in a.b.Files.open (Files.java:7).'
    """
    found = TOP_FRAME.search(stack)
    if found is None:
        return f"Spark failed with {kind} and no further word."
    known = KNOWN.get(found[1].rpartition(".")[2])
    return known or f"Spark failed with {kind} and no further word, in {found[1]} ({found[2]})."
