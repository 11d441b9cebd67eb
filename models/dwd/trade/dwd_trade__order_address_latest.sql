with

ods_shop__order_address as (
    select
        order_id,
        start_city_name,
        end_city_name,
        update_time,
        raw_values,
        before,
        op_type,
        event_time,
        binlog_file_number,
        binlog_position,
        row_number
    from {{ ref('ods_shop__order_address') }}
    where reject_reason is null
),

latest as (
    {{
        latest_rows(
            from_cte='ods_shop__order_address',
            key_columns=['order_id'],
            image_columns=[
                'order_id',
                'start_city_name',
                'end_city_name',
                'update_time',
                'raw_values',
            ],
            change_columns=[
                'event_time',
                'binlog_file_number',
                'binlog_position',
                'row_number',
            ],
        )
    }}
)

select * from latest
