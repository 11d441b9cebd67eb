"""Which expressions of a query aggregate rows."""

from __future__ import annotations

from sqlglot import exp

# aggregates of Spark that sqlglot takes for functions of a row
OTHERS = frozenset(
    (
        *("bitmap_and_agg", "count_min_sketch", "every", "histogram_numeric", "hll_sketch_agg"),
        *("hll_union_agg", "kll_merge_agg_bigint", "kll_merge_agg_double", "kll_merge_agg_float"),
        *("kll_sketch_agg_bigint", "kll_sketch_agg_double", "kll_sketch_agg_float", "mean", "some"),
        *("schema_of_variant_agg", "std", "theta_intersection_agg", "theta_sketch_agg"),
        *("theta_union_agg", "try_avg", "try_sum"),
    )
)


def is_aggregate(part: exp.Expr) -> bool:
    """Whether an expression is an aggregate of rows, of Spark's own functions."""
    if isinstance(part, exp.Anonymous):
        return part.name.lower() in OTHERS
    if isinstance(part, exp.Any):  # `like any (..)` and `= any (select ..)` compare a value
        is_list = isinstance(part.parent, (exp.Like, exp.ILike)) and part.arg_key == "expression"
        return not is_list and not isinstance(part.this, exp.Query)
    return isinstance(part, (exp.AggFunc, exp.AnonymousAggFunc))
