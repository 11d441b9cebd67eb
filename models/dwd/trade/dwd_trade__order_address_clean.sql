{{
    config(
        meta={'row_wise': true},
    )
}}

with

ods_shop__order_address as (
    select
        order_id,
        start_city_name,
        end_city_name,
        before,
        op_type,
        unique_key,
        binlog_file_number,
        binlog_position,
        row_number,
        event_time,
        cut_date
    from {{ ref('ods_shop__order_address') }}
    where reject_reason is null
),

city as (
    select
        city_name,
        city_code
    from {{ ref('city') }}
),

retracted as (
    {{
        retract_rows(
            from_cte='ods_shop__order_address',
            image_columns=[
                'order_id',
                'start_city_name',
                'end_city_name',
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

-- the codes are the cities' names, of which the rules make codes
coded as (
    select
        order_id,
        start_city_name,
        start_city_name as start_city_code,
        end_city_name,
        end_city_name as end_city_code,
        row_kind,
        sign,
        unique_key,
        binlog_file_number,
        binlog_position,
        row_number,
        event_time,
        cut_date
    from retracted
),

cleaned as (
    {{
        cleaned(
            model,
            from_cte='coded',
            columns=[
                'order_id',
                'start_city_name',
                'start_city_code',
                'end_city_name',
                'end_city_code',
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
