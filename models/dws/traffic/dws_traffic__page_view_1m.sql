{{
    config(
        materialized='view',
    )
}}

with

dws_traffic__page_view_5m as (
    select
        dimension_set,
        platform,
        page,
        pv,
        uv_sketch,
        cut_date
    from {{ ref('dws_traffic__page_view_5m') }}
    where grain = '1d'
),

months as (
    select
        cast(trunc(cut_date, 'month') as date) as cut_month,
        dimension_set,
        platform,
        page,
        sum(pv) as pv,
        hll_sketch_estimate(hll_union_agg(uv_sketch)) as uv_estimate
    from dws_traffic__page_view_5m
    group by
        cast(trunc(cut_date, 'month') as date),
        dimension_set,
        platform,
        page
)

select * from months
