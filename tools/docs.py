"""`make docs`: build the dbt docs and say where they are."""

from __future__ import annotations

import os
from pathlib import Path

from dbt.cli.main import dbtRunner


def main() -> int:
    done = dbtRunner().invoke(["docs", "generate", "--static"])
    if not done.success:
        return 1
    target = Path(os.environ.get("DBT_TARGET_PATH", "target")).resolve()
    print(f"\nThe docs are one page: {target / 'static_index.html'} (open it in a browser).")
    print("Or serve them: .venv/bin/dbt docs serve --profiles-dir profiles --host 127.0.0.1")
    return 0
