with

-- each image once: -U and -D repeat the image that a +I or +U brought
dwd_trade__order_clean as (
    select
        cleaning,
        sign
    from {{ ref('dwd_trade__order_clean') }}
    where sign = 1
),

dwd_trade__order_address_clean as (
    select
        cleaning,
        sign
    from {{ ref('dwd_trade__order_address_clean') }}
    where sign = 1
),

-- retract rows: an order counts as it is now
dwd_trade__order_event as (
    select
        cleaning,
        sign
    from {{ ref('dwd_trade__order_event') }}
),

dwd_traffic__page_view as (
    select
        cleaning,
        sign
    from {{ ref('dwd_traffic__page_view') }}
),

counted as (
    {{
        cleaning_counts([
            'dwd_trade__order_clean',
            'dwd_trade__order_address_clean',
            'dwd_trade__order_event',
            'dwd_traffic__page_view',
        ])
    }}
)

select * from counted
