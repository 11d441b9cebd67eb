"""Upserts by key in many batches, and reads: a folded model beside other kinds of tables.

    python -m benchmarks.bench_upserts --delta-jars .. --hudi-jars .. --paimon-jars .. \\
        --old-python <venv>/bin/python

50 batches of 100,000 upserts over 1 million keys, each batch a commit, two cores. Then reads of
one key, of 1,000 neighbouring keys and of all rows: with the table as the batches left it, and
after it was compacted. All answers (rows, sums) must be equal, else it fails.

- folded: dbt builds a folded model, see folded_upserts; folded_3 is one of `tier_runs` 3.
- iceberg_cow, iceberg_mor: MERGE as dbt-spark writes it, copy-on-write and merge-on-read.
- delta, hudi_cow, hudi_mor, paimon: what each has for upserts, see peer_upserts.

The others are handed batches without a key twice, and need no dbt run; the folded model folds its
batches itself. Each is a process of its own. Delta, Hudi and Paimon are no dependencies of the
project: their jar files are named by options, Hudi's and Paimon's with an interpreter that has
a pyspark which they support; who isn't named is left out.

With `--held 10` the table holds ten times the keys before the first batch, and the batches fall on
all of them: beside `--held 1` it shows whether a batch takes longer on a larger table.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from statistics import mean, median
from typing import Any

from benchmarks.common import ROOT, SCRATCH, run_module
from benchmarks.peer_upserts import SYSTEMS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--rows", type=int, default=100_000, help="upserts of a batch")
    parser.add_argument("--held", type=int, default=0, help="times the keys that it holds before")
    parser.add_argument("--old-python", help="interpreter with pyspark 3.5")
    parser.add_argument("--delta-jars", default="", help="comma separated files")
    parser.add_argument("--hudi-jars", default="")
    parser.add_argument("--paimon-jars", default="")
    parser.add_argument("--only", nargs="*", help="of the systems")
    given = parser.parse_args()
    jars = {"delta": given.delta_jars, "hudi": given.hudi_jars, "paimon": given.paimon_jars}
    chosen = ["folded", "folded_3", *SYSTEMS] if given.only is None else given.only
    results = measure(given, chosen, jars)
    print(table(results))
    answers = {name: result["check"] for name, result in results.items()}
    if len(set(map(tuple, answers.values()))) != 1:
        sys.exit(f"bench: the answers differ: {answers}")
    print(f"answers equal: {next(iter(answers.values()))}")


def measure(given: Any, chosen: list[str], jars: dict[str, str]) -> dict[str, dict[str, Any]]:
    """System -> what its child reported."""
    folder = SCRATCH / "upserts"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    keys = given.keys * max(given.held, 1)
    made = folder / "input"
    run_module(
        "peer_upserts", "generate", made, "", "--keys", keys, "--batches", given.batches, "--rows",
        given.rows,
    )  # fmt: skip
    own_jars = ",".join(str(path) for path in sorted((ROOT / ".jars" / "jars").glob("*iceberg*")))
    common = ["--input", made, "--keys", keys, *(["--held"] if given.held else [])]
    found = {}
    for name in chosen:
        place = folder / name
        kind = name.split("_")[0]
        print(f"{name} ..", file=sys.stderr)
        if kind == "folded":
            tiers = ["--tier-runs", name.split("_")[1]] if "_" in name else []
            ran = run_module("folded_upserts", place, *common, *tiers)
        elif kind == "iceberg":
            ran = run_module("peer_upserts", name, place, own_jars, *common)
        elif not jars[kind] or (kind != "delta" and not given.old_python):
            print(f"{name}: its jars or its interpreter are not named", file=sys.stderr)
            continue
        else:
            python = sys.executable if kind == "delta" else given.old_python
            ran = run_module("peer_upserts", name, place, jars[kind], *common, python=python)
        found[name] = json.loads(ran.output.strip().splitlines()[-1])
        # not all of the place: scratch files of a child that ends are still being removed
        tables = [path for folder in ("warehouse", "lake") for path in (place / folder).rglob("*")]
        found[name]["gib"] = (
            sum(table.stat().st_size for table in tables if table.is_file()) / 2**30
        )
        print(json.dumps({name: found[name]}), file=sys.stderr)
        shutil.rmtree(place, ignore_errors=True)
    return found


def table(results: dict[str, dict[str, Any]]) -> str:
    """The results as a table for people: seconds, and beside them the ratio to the folded model."""
    base = results.get("folded")
    lines = [
        "| table | all batches | a batch (median) | last five | point | range | full "
        "| compaction | point after | range after | full after |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, result in results.items():
        cells = []
        for path in (
            ("all",), ("median",), ("last",), ("open", "point"), ("open", "range"),
            ("open", "full"), ("compaction",), ("compacted", "point"), ("compacted", "range"),
            ("compacted", "full"),
        ):  # fmt: skip
            value, own = _value(result, path), _value(base, path) if base else None
            ratio = f" ({value / own:.2f}x)" if value and own and result is not base else ""
            cells.append("-" if value is None else f"{value:.2f}{ratio}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _value(result: dict[str, Any], path: tuple[str, ...]) -> float | None:
    batches = {"all": sum, "median": median, "last": lambda seconds: mean(seconds[-5:])}
    if path[0] in batches:
        return batches[path[0]](result["seconds"])
    value: Any = result
    for part in path:
        value = (value or {}).get(part)
    return value


if __name__ == "__main__":
    main()
