"""Sketches beside exact distinct counts: errors, seconds, sizes.

    python -m benchmarks.bench_sketches --values 1000 10000 100000 1000000 10000000

So many distinct values, each there twice, are counted in three ways, in turn in one warm process:
of several disjoint sets of values the errors, of the last one the seconds, the size of the sketch
and Spark's numbers of memory and shuffle.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.common import SCRATCH, session

FOLDER = SCRATCH / "windows"
SETS, LARGE = 5, 1_000_000  # disjoint sets of values of one size; above the second only one
ASKED = {
    "count(distinct)": ("count(distinct value)", None),
    "hll_sketch_agg": ("hll_sketch_estimate(sketch)", "hll_sketch_agg(value, 12)"),
    "theta_sketch_agg": ("theta_sketch_estimate(sketch)", "theta_sketch_agg(value, 12)"),
}
# of 5-minute sketches, joined: 288 a day
JOINED = {
    "hll_sketch_agg": "hll_sketch_estimate(hll_union_agg(sketch))",
    "theta_sketch_agg": "theta_sketch_estimate(theta_union_agg(sketch, 12))",
}
BOUND = 1.04 / math.sqrt(2**12)  # standard error of both at lg_k 12


def metrics(spark: Any) -> dict[int, tuple[int, int]]:
    """Stage -> (peak execution memory, bytes of shuffle written) of the stages so far."""
    jvm = spark.sparkContext._jvm
    empty = spark.sparkContext._gateway.new_array(jvm.double, 0)
    store = spark.sparkContext._jsc.sc().statusStore()
    listed = store.stageList(
        jvm.java.util.ArrayList(), False, False, empty, jvm.java.util.ArrayList()
    )
    found = {}
    for place in range(listed.size()):
        stage = listed.apply(place)
        found[stage.stageId()] = (stage.peakExecutionMemory(), stage.shuffleWriteBytes())
    return found


def sketches(sizes: Sequence[int]) -> None:
    """Print a table of errors, seconds and sizes."""
    spark = session(FOLDER / "sketches")
    print(
        "| distinct values | asked by | error, root mean square | greatest | 288 sketches joined "
        "| seconds | bytes of the sketch | execution memory, MB | shuffled, KB |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for size in sizes:
        sets = SETS if size <= LARGE else 1
        for name, (answer, made) in ASKED.items():
            errors, joined = [], []
            # what is exact needs no second set
            for number in range(sets if made else 1):
                values = (
                    f"select cast(id % {size} + {number} * 1000000000L as string) as value, "
                    f"id % 288 as part from range({2 * size})"
                )
                source = f"(select {made} as sketch from ({values}))" if made else f"({values})"
                before, start = set(metrics(spark)), time.perf_counter()
                got = spark.sql(f"select {answer} as n from {source}").collect()[0].n
                seconds = time.perf_counter() - start
                took = [metric for stage, metric in metrics(spark).items() if stage not in before]
                errors.append(got / size - 1)
                if made:
                    parts = f"select {made} as sketch from ({values}) group by part"
                    asked = spark.sql(f"select {JOINED[name]} as n from ({parts})").collect()
                    joined.append(asked[0].n / size - 1)
            memory = max((item[0] for item in took), default=0) / 2**20
            shuffled = sum(item[1] for item in took) / 1024
            width = (
                spark.sql(f"select length(sketch) as n from {source}").collect()[0].n
                if made
                else None
            )
            print(
                f"| {size:,} | {name} | {rms(errors):.2%} | {max(map(abs, errors)):.2%} | "
                f"{f'{rms(joined):.2%}' if joined else '-'} | {seconds:.2f} | "
                f"{width or '-'} | {memory:,.1f} | {shuffled:,.1f} |",
                flush=True,
            )
    print(f"\nStandard error by theory at lg_k 12: {BOUND:.2%}")


def rms(errors: Sequence[float]) -> float:
    return math.sqrt(sum(error * error for error in errors) / len(errors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--values", type=int, nargs="+", required=True)
    sketches(parser.parse_args().values)


if __name__ == "__main__":
    main()
