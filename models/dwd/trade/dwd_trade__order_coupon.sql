{{ config(materialized='folded') }}

with

order_coupon as (
    {{
        many_to_many_join(
            left={
                'relation': ref('dwd_trade__order_wide'),
                'key': 'order_id',
                'columns': [
                    'order_id',
                    'user_id',
                    'amount',
                    'biz_status',
                    'create_time',
                ],
            },
            right={
                'relation': ref('dwd_trade__coupon_wide'),
                'key': ['user_id', 'coupon_code'],
                'columns': {
                    'user_id': 'coupon_user_id',
                    'coupon_code': 'coupon_code',
                    'amount': 'coupon_amount',
                    'state': 'coupon_state',
                },
            },
            on={'order_id': 'used_order'},
            kind='left',
        )
    }}
)

select * from order_coupon
