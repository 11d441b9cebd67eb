"""Names of sources that Spark takes in backticks alone."""

from __future__ import annotations

import re

from dbt.adapters.sparksession.edges import Foreign

PLAIN = re.compile(r"[\w.]+|`(?:[^`]|``)+`", re.ASCII)  # a name as SQL takes it


def odd_source_names(manifest: Foreign) -> list[str]:
    """Error texts for sources that a node reads and whose names are no SQL as they are declared."""
    read = {unique_id for node in manifest.nodes.values() for unique_id in node.depends_on_nodes}
    found = []
    for source in sorted(manifest.sources.values(), key=lambda item: item.unique_id):
        what = f"source('{source.source_name}', '{source.name}')"
        if source.unique_id not in read:
            continue
        if not re.fullmatch(r"[\w.]+", source.schema, re.ASCII):
            found.append(
                f"{source.original_file_path}: the schema of {what} has the name "
                f"{source.schema!r}, but a schema's name may have the letters a to z and A to Z, "
                "digits and underscores alone: declare another schema, with a view or a copy of "
                "the table."
            )
        elif not PLAIN.fullmatch(source.identifier):
            found.append(
                f"{source.original_file_path}: {what} is the table {source.identifier!r}, a name "
                f'that Spark takes in backticks alone: write identifier: "`{source.identifier}`".'
            )
    return found
