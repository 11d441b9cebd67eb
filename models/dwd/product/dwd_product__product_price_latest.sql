with

ods_shop__product_price as (
    select
        product_id,
        product_name,
        price,
        updated_at,
        raw_values,
        before,
        op_type,
        event_time,
        binlog_file_number,
        binlog_position,
        row_number
    from {{ ref('ods_shop__product_price') }}
    where reject_reason is null
),

latest as (
    {{
        latest_rows(
            from_cte='ods_shop__product_price',
            key_columns=['product_id'],
            image_columns=[
                'product_id',
                'product_name',
                'price',
                'updated_at',
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
