{{
    config(
        materialized='view',
    )
}}

with

traffic as (
    select
        cut_date,
        dimension_set,
        platform,
        pv,
        uv,
        user_sketch
    from {{ ref('dws_traffic__page_view_5m') }}
    where
        grain = '1d'
        and dimension_set in ('all', 'platform')
),

orders as (
    select
        cut_date,
        dimension_set,
        platform,
        order_count,
        gmv,
        buyer_count,
        buyer_sketch
    from {{ ref('dws_trade__order_5m') }}
    where
        grain = '1d'
        and dimension_set in ('all', 'platform')
),

-- coupons know no platform: they stand in the row of the whole day
coupons as (
    select
        cut_date,
        'all' as dimension_set,
        cast(null as string) as platform,
        sum(coupon_count_change) filter (where state = 'new') as coupons_new,
        sum(coupon_count_change) filter (where state = 'used') as coupons_used,
        sum(amount_sum_change) filter (where state = 'used') as coupon_amount_used
    from {{ ref('dws_trade__user_coupon_1d') }}
    group by cut_date
),

domains as (
    {{
        side_by_side(
            keys=['cut_date', 'dimension_set', 'platform'],
            domains={
                'traffic': ['pv', 'uv', 'user_sketch'],
                'orders': ['order_count', 'gmv', 'buyer_count', 'buyer_sketch'],
                'coupons': ['coupons_new', 'coupons_used', 'coupon_amount_used'],
            },
        )
    }}
),

platform_days as (
    select
        cut_date,
        dimension_set,
        platform,
        pv,
        uv,
        order_count,
        gmv,
        buyer_count,
        coupons_new,
        coupons_used,
        coupon_amount_used,
        cast(buyer_count / nullif(uv, 0) as decimal(18, 6)) as conversion_rate,
        theta_sketch_estimate(
            theta_intersection(user_sketch, buyer_sketch)
        ) as viewing_buyers_estimate
    from domains
)

select * from platform_days
