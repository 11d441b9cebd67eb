{%- set coupon_columns = [
    'user_id',
    'coupon_code',
    'amount',
    'state',
    'valid_until',
    'used_order',
    'update_time',
] -%}

{{
    config(
        materialized='folded',
        unique_key=['user_id', 'coupon_code'],
        fold={
            'sequence': ['binlog_file_number', 'binlog_position', 'row_number'],
            'row_kind': 'row_kind',
        },
    )
}}

with

ods_shop__coupon as (
    select
        user_id,
        coupon_code,
        amount,
        state,
        valid_until,
        used_order,
        update_time,
        before,
        op_type,
        binlog_file_number,
        binlog_position,
        row_number
    from {{ new_rows(ref('ods_shop__coupon')) }}
    where reject_reason is null
),

retracted as (
    {{
        retract_rows(
            from_cte='ods_shop__coupon',
            image_columns=coupon_columns,
            change_columns=['binlog_file_number', 'binlog_position', 'row_number'],
            upsert_by=['user_id', 'coupon_code'],
        )
    }}
),

changes as (
    select
        user_id,
        coupon_code,
        amount,
        state,
        valid_until,
        used_order,
        update_time,
        row_kind,
        binlog_file_number,
        binlog_position,
        row_number
    from retracted
)

select * from changes
