"""`make new-table TABLE=shop.x`: write the declaration and the model of a table of the log.

Columns, key and types are those that the log has: of Maxwell its DDL messages, of Canal what its
messages say of their columns, else the values themselves, and then as wide as they leave open. What
the log doesn't say stands as a comment in the block: read it before you build.

It adds to models/ods/<folder>/_<folder>__models.yml, makes the model beside it and adds it to
macros/quality/typed_models.sql. Nothing is written over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tools.declaring.block import MODEL, UnusableNameError, entry, model_name
from tools.declaring.log import TableInLog, table_in_log

ROOT = Path(__file__).parents[1]
LIST = Path("macros") / "quality" / "typed_models.sql"
LISTED = re.compile(r"^        ref\('(\w+)'\),\n", re.MULTILINE)
# what tables of one database share in their declaration
SHARED = ("topic", "format", "log_resets", "options")


class NewTableError(Exception):
    """Why nothing was written, in a sentence."""


def declared_sources(root: Path) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Folder, model and `meta.source` of each typed model, as its file writes them."""
    for file in sorted((root / "models" / "ods").glob("*/_*__models.yml")):
        held = yaml.safe_load(file.read_text(encoding="utf-8"))
        for model in held.get("models") or []:
            source = ((model.get("config") or {}).get("meta") or {}).get("source")
            if source:
                yield file.parent.name, model["name"], source


def declaring_files(root: Path, found: TableInLog) -> dict[Path, str]:
    """The files that declare a table -> their new text.

    Raises:
        NewTableError: the table is declared, or a file is in the way.
        UnusableNameError: a name of the table can't stand in a file.
    """
    sources = list(declared_sources(root))
    for _, name, source in sources:
        if (source["database"], source["table"]) == (found.database, found.table):
            raise NewTableError(f"{found.database}.{found.table} is declared already: {name}.")
    alike = [
        (folder, source) for folder, _, source in sources if source["database"] == found.database
    ]
    folder = alike[0][0] if alike else re.sub(r"[^a-z0-9]+", "", found.database.lower())
    if not folder:
        raise UnusableNameError(f"No folder can be named after the database {found.database!r}.")
    shared = {key: alike[0][1][key] for key in SHARED if key in alike[0][1]} if alike else {}
    name = model_name(folder, found.table)
    models = root / "models" / "ods" / folder
    declarations, model, listed = (
        models / f"_{folder}__models.yml",
        models / f"{name}.py",
        root / LIST,
    )
    if model.exists() or any(name == other for _, other, _ in sources):
        raise NewTableError(
            f"There is a model {name} already, of another table: rename one of them."
        )
    head = declarations.read_text(encoding="utf-8") if declarations.is_file() else _HEAD
    return {
        declarations: f"{head.rstrip()}\n{_gap(head)}{entry(found, name, shared)}",
        model: MODEL,
        listed: with_name(listed.read_text(encoding="utf-8"), name),
    }


_HEAD = "version: 2\n\nmodels:\n"


def _gap(head: str) -> str:
    return "" if head == _HEAD else "\n"


def with_name(macro: str, name: str) -> str:
    """The text of the macro typed_models, with one more name in its order.

    >>> with_name("[\\n        ref('a'),\\n        ref('c'),\\n    ]", "b")
    "[\\n        ref('a'),\\n        ref('b'),\\n        ref('c'),\\n    ]"
    """
    line = f"        ref('{name}'),\n"
    for listed in LISTED.finditer(macro):
        if listed[1] > name:
            return macro[: listed.start()] + line + macro[listed.start() :]
    end = list(LISTED.finditer(macro))[-1].end()
    return macro[:end] + line + macro[end:]


def main(table: str) -> int:
    """Write the files; the process's exit code.

    Raises:
        NewTableError, UnknownTableError, UnusableNameError: nothing was written.
        DbtRuntimeError: there is no warehouse to read.
    """
    from dbt.adapters.sparksession.session import own_session

    from tools.sql import reading_credentials

    database, _, name = table.partition(".")
    if not database or not name:
        raise NewTableError("Usage: make new-table TABLE=<database>.<table>, as the log has them.")
    credentials = reading_credentials()
    session = own_session(credentials).session
    found = table_in_log(session, f"{credentials.schema}.ods_binlog", database, name)
    written = declaring_files(ROOT, found)
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    notes = [f"  {column}: {kind.note}" for column, kind in found.columns.items() if kind.note]
    if found.primary_key is None:
        notes.insert(0, "  primary_key: the log doesn't name it; [] is a table without a key")
    print(f"{found.messages:,} changes of {table} are in the log, by {', '.join(found.topics)}.")
    if notes:
        print("Look at these before you build:")
        print("\n".join(notes))
    model = next(path.stem for path in written if path.suffix == ".py")
    print(f"Then: .venv/bin/dbt run --profiles-dir profiles -s {model}")
    return 0
