{{
    config(
        materialized='folded',
        unique_key='booking_id',
        fold={
            'sequence': ['binlog_file_number', 'binlog_position', 'row_number'],
            'row_kind': 'row_kind',
        },
    )
}}

with

ods_school__class_booking as (
    select
        booking_id,
        class_id,
        user_id,
        booked_at,
        state,
        updated_at,
        before,
        op_type,
        binlog_file_number,
        binlog_position,
        row_number
    from {{ new_rows(ref('ods_school__class_booking')) }}
    where reject_reason is null
),

retracted as (
    {{
        retract_rows(
            from_cte='ods_school__class_booking',
            image_columns=[
                'booking_id',
                'class_id',
                'user_id',
                'booked_at',
                'state',
                'updated_at',
            ],
            change_columns=['binlog_file_number', 'binlog_position', 'row_number'],
            upsert_by=['booking_id'],
        )
    }}
),

changes as (
    select
        booking_id,
        class_id,
        user_id,
        booked_at,
        state,
        updated_at,
        row_kind,
        binlog_file_number,
        binlog_position,
        row_number
    from retracted
)

select * from changes
