{{
    config(
        meta={'row_wise': true},
    )
}}

with

ods_shop__order_info as (
    select
        order_id,
        user_id,
        plat_name,
        amount,
        biz_status,
        before,
        op_type,
        unique_key,
        binlog_file_number,
        binlog_position,
        row_number,
        event_time,
        cut_date
    from {{ ref('ods_shop__order_info') }}
    where reject_reason is null
),

biz_status as (
    select
        status_text,
        status_code
    from {{ ref('biz_status') }}
),

platform as (
    select
        platform_name,
        platform_code
    from {{ ref('platform') }}
),

retracted as (
    {{
        retract_rows(
            from_cte='ods_shop__order_info',
            image_columns=[
                'order_id',
                'user_id',
                'plat_name',
                'amount',
                'biz_status',
            ],
            change_columns=[
                'unique_key',
                'binlog_file_number',
                'binlog_position',
                'row_number',
                'event_time',
                'cut_date',
            ],
        )
    }}
),

cleaned as (
    {{
        cleaned(
            model,
            from_cte='retracted',
            columns=[
                'order_id',
                'user_id',
                'plat_name',
                'amount',
                'biz_status',
                'row_kind',
                'sign',
                'unique_key',
                'binlog_file_number',
                'binlog_position',
                'row_number',
                'event_time',
                'cut_date',
            ],
        )
    }}
)

select * from cleaned
