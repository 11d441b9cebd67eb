with

-- each image once: -U and -D repeat the one that a +I or +U brought
dwd_trade__order_clean as (
    select cleaning
    from {{ ref('dwd_trade__order_clean') }}
    where sign = 1
),

dwd_trade__order_address_clean as (
    select cleaning
    from {{ ref('dwd_trade__order_address_clean') }}
    where sign = 1
),

counted as (
    {{
        cleaning_counts([
            'dwd_trade__order_clean',
            'dwd_trade__order_address_clean',
        ])
    }}
)

select * from counted
