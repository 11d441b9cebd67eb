{%- set order_columns = [
    'user_id',
    'product_type',
    'plat_name',
    'ref_id',
    'amount',
    'order_status',
    'biz_status',
    'create_time',
    'update_time',
    'dispatch_time',
    'decision_time',
    'finish_time',
] -%}

{{
    config(
        materialized='folded',
        unique_key='order_id',
        on_schema_change='append_new_columns',
        fold={
            'row_kind': 'row_kind',
            'sequence_groups': {
                'order': {
                    'sequence': [
                        'order_binlog_file_number',
                        'order_binlog_position',
                        'order_row_number',
                    ],
                    'columns': order_columns + ['order_raw_values', 'order_event_time'],
                    'on_delete': 'remove_row',
                },
                'address': {
                    'sequence': [
                        'address_binlog_file_number',
                        'address_binlog_position',
                        'address_row_number',
                    ],
                    'columns': ['start_city_name', 'end_city_name'],
                    'on_delete': 'retract',
                },
            },
            'aggregates': {'coupon_count': 'sum', 'coupon_amount': 'sum'},
            'on_delete': 'retract',
            'keep_when': 'order_binlog_file_number is not null',
        },
    )
}}

with

ods_shop__order_info as (
    select
        order_id,
        user_id,
        product_type,
        plat_name,
        ref_id,
        amount,
        order_status,
        biz_status,
        create_time,
        update_time,
        dispatch_time,
        decision_time,
        finish_time,
        raw_values,
        before,
        op_type,
        event_time,
        binlog_file_number,
        binlog_position,
        row_number
    from {{ new_rows(ref('ods_shop__order_info')) }}
    where reject_reason is null
),

ods_shop__order_address as (
    select
        order_id,
        start_city_name,
        end_city_name,
        before,
        op_type,
        binlog_file_number,
        binlog_position,
        row_number
    from {{ new_rows(ref('ods_shop__order_address')) }}
    where reject_reason is null
),

ods_shop__coupon as (
    select
        used_order,
        amount,
        before,
        op_type,
        binlog_file_number
    from {{ new_rows(ref('ods_shop__coupon')) }}
    where reject_reason is null
),

order_rows as (
    {{
        retract_rows(
            from_cte='ods_shop__order_info',
            image_columns=['order_id'] + order_columns + ['raw_values'],
            change_columns=[
                'event_time',
                'binlog_file_number',
                'binlog_position',
                'row_number',
            ],
            upsert_by=['order_id'],
        )
    }}
),

address_rows as (
    {{
        retract_rows(
            from_cte='ods_shop__order_address',
            image_columns=['order_id', 'start_city_name', 'end_city_name'],
            change_columns=['binlog_file_number', 'binlog_position', 'row_number'],
            upsert_by=['order_id'],
        )
    }}
),

coupon_rows as (
    {{
        retract_rows(
            from_cte='ods_shop__coupon',
            image_columns=['used_order', 'amount'],
            change_columns=['binlog_file_number'],
        )
    }}
),

orders as (
    select
        order_id,
        user_id,
        product_type,
        plat_name,
        ref_id,
        amount,
        order_status,
        biz_status,
        create_time,
        update_time,
        dispatch_time,
        decision_time,
        finish_time,
        array_sort(map_entries(raw_values)) as order_raw_values,
        row_kind,
        event_time as order_event_time,
        binlog_file_number as order_binlog_file_number,
        binlog_position as order_binlog_position,
        row_number as order_row_number
    from order_rows
),

addresses as (
    select
        order_id,
        start_city_name,
        end_city_name,
        row_kind,
        binlog_file_number as address_binlog_file_number,
        binlog_position as address_binlog_position,
        row_number as address_row_number
    from address_rows
),

-- a coupon that is used for an order, or isn't any more
coupons as (
    select
        used_order as order_id,
        row_kind,
        1 as coupon_count,
        amount as coupon_amount
    from coupon_rows
    where used_order is not null
),

widened as (
    {{
        partial_rows({
            'orders': ['order_id'] + order_columns + [
                'order_raw_values',
                'row_kind',
                'order_event_time',
                'order_binlog_file_number',
                'order_binlog_position',
                'order_row_number',
            ],
            'addresses': [
                'order_id',
                'start_city_name',
                'end_city_name',
                'row_kind',
                'address_binlog_file_number',
                'address_binlog_position',
                'address_row_number',
            ],
            'coupons': [
                'order_id',
                'row_kind',
                'coupon_count',
                'coupon_amount',
            ],
        })
    }}
)

select * from widened
