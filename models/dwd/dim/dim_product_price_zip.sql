{{
    config(
        materialized='folded',
        unique_key='product_id',
        zipper={
            'sequence': ['binlog_file_number', 'binlog_position', 'row_number'],
            'time': 'event_time',
            'tracked': ['product_name', 'price'],
            'row_kind': 'row_kind',
        },
    )
}}

with

ods_shop__product_price as (
    select
        product_id,
        product_name,
        price,
        updated_at,
        before,
        op_type,
        event_time,
        binlog_file_number,
        binlog_position,
        row_number
    from {{ new_rows(ref('ods_shop__product_price')) }}
    where reject_reason is null
),

retracted as (
    {{
        retract_rows(
            from_cte='ods_shop__product_price',
            image_columns=['product_id', 'product_name', 'price', 'updated_at'],
            change_columns=[
                'event_time',
                'binlog_file_number',
                'binlog_position',
                'row_number',
            ],
            upsert_by=['product_id'],
        )
    }}
),

changes as (
    select
        product_id,
        product_name,
        price,
        updated_at,
        row_kind,
        event_time,
        binlog_file_number,
        binlog_position,
        row_number
    from retracted
)

select * from changes
