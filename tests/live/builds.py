"""`python -m tests.live.builds FOLDER`: dbt again and again, until the file FOLDER/stop is there.

Each build adds a line to FOLDER/builds.jsonl:
    {"began": .., "ended": .. (seconds since the epoch), "ok": .., "error": ..}
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from tests.support.warehouse import Warehouse

MODELS = "+dws_trade__user_status_td path:models/ods/shop"
BUILDS = "builds.jsonl"
STOP = "stop"


def main(folder: Path) -> None:
    warehouse = Warehouse(folder)
    while not (folder / STOP).exists():
        began = time.time()
        outcome = warehouse.build("--select", MODELS, expect_ok=None)
        wrong = [result.message for result in outcome.results.values() if result.status == "error"]
        if outcome.exception is not None:
            wrong.append(str(outcome.exception))
        if not outcome.ok and not wrong:
            wrong.append(outcome.log)
        line = {"began": began, "ended": time.time(), "ok": outcome.ok, "error": "\n".join(wrong)}
        with (folder / BUILDS).open("a") as file:
            file.write(json.dumps(line) + "\n")
        time.sleep(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
