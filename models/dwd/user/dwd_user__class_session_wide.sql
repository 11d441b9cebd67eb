{{
    config(
        materialized='folded',
        unique_key='class_id',
        fold={
            'sequence': ['binlog_file_number', 'binlog_position', 'row_number'],
            'row_kind': 'row_kind',
        },
    )
}}

with

ods_school__class_session as (
    select
        class_id,
        title,
        starts_at,
        updated_at,
        before,
        op_type,
        binlog_file_number,
        binlog_position,
        row_number
    from {{ new_rows(ref('ods_school__class_session')) }}
    where reject_reason is null
),

retracted as (
    {{
        retract_rows(
            from_cte='ods_school__class_session',
            image_columns=[
                'class_id',
                'title',
                'starts_at',
                'updated_at',
            ],
            change_columns=['binlog_file_number', 'binlog_position', 'row_number'],
            upsert_by=['class_id'],
        )
    }}
),

changes as (
    select
        class_id,
        title,
        starts_at,
        updated_at,
        row_kind,
        binlog_file_number,
        binlog_position,
        row_number
    from retracted
)

select * from changes
