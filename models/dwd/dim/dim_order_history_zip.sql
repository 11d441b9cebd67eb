{{
    config(
        materialized='folded',
        unique_key='order_id',
        zipper={
            'time': 'event_time',
            'row_kind': 'row_kind',
            'sequence_groups': {
                'order': {
                    'sequence': [
                        'order_binlog_file_number',
                        'order_binlog_position',
                        'order_row_number',
                    ],
                    'columns': ['user_id', 'amount', 'order_status', 'biz_status'],
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
            'keep_when': 'order_binlog_file_number is not null',
        },
    )
}}

with

ods_shop__order_info as (
    select
        order_id,
        user_id,
        amount,
        order_status,
        biz_status,
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
        event_time,
        binlog_file_number,
        binlog_position,
        row_number
    from {{ new_rows(ref('ods_shop__order_address')) }}
    where reject_reason is null
),

order_rows as (
    {{
        retract_rows(
            from_cte='ods_shop__order_info',
            image_columns=['order_id', 'user_id', 'amount', 'order_status', 'biz_status'],
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

orders as (
    select
        order_id,
        user_id,
        amount,
        order_status,
        biz_status,
        row_kind,
        event_time,
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
        event_time,
        binlog_file_number as address_binlog_file_number,
        binlog_position as address_binlog_position,
        row_number as address_row_number
    from address_rows
),

changes as (
    {{
        partial_rows({
            'orders': [
                'order_id',
                'user_id',
                'amount',
                'order_status',
                'biz_status',
                'row_kind',
                'event_time',
                'order_binlog_file_number',
                'order_binlog_position',
                'order_row_number',
            ],
            'addresses': [
                'order_id',
                'start_city_name',
                'end_city_name',
                'row_kind',
                'event_time',
                'address_binlog_file_number',
                'address_binlog_position',
                'address_row_number',
            ],
        })
    }}
)

select * from changes
