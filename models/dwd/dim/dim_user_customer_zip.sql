{{
    config(
        materialized='folded',
        unique_key=['user_id', 'order_id'],
        fold={
            'sequence': ['binlog_file_number', 'binlog_position', 'row_number'],
            'row_kind': 'row_kind',
            'not_null': ['user_id', 'order_id'],
            'derived': {
                'by': 'user_id',
                'key': ['user_id', 'valid_from'],
                'sql': customer_versions(
                    'folded_rows',
                    orders=var('high_value_orders'),
                    days=var('high_value_days'),
                ),
            },
        },
    )
}}

with

ods_shop__order_info as (
    select
        order_id,
        user_id,
        create_time,
        decision_time,
        before,
        op_type,
        event_time,
        binlog_file_number,
        binlog_position,
        row_number
    from {{ new_rows(ref('ods_shop__order_info')) }}
    where reject_reason is null
),

retracted as (
    {{
        retract_rows(
            from_cte='ods_shop__order_info',
            image_columns=['order_id', 'user_id', 'create_time', 'decision_time'],
            change_columns=['binlog_file_number', 'binlog_position', 'row_number'],
            upsert_by=['order_id', 'user_id'],
        )
    }}
),

orders_of_users as (
    select
        user_id,
        order_id,
        create_time,
        decision_time as paid_time,
        row_kind,
        binlog_file_number,
        binlog_position,
        row_number
    from retracted
    where user_id is not null
)

select * from orders_of_users
