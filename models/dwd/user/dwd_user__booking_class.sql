{{ config(materialized='folded') }}

with

booked as (
    {{
        history_join(
            left={
                'relation': ref('dwd_user__class_session_wide'),
                'key': 'class_id',
                'columns': ['class_id', 'title', 'starts_at'],
                'time': 'starts_at',
            },
            right={
                'relation': ref('dwd_user__class_booking_wide'),
                'key': 'booking_id',
                'columns': ['booking_id', 'user_id', 'booked_at', 'state'],
                'time': 'booked_at',
            },
            on={'class_id': 'class_id'},
            expiry=var('booking_days') ~ ' days',
            kind='inner',
        )
    }}
),

booking_class as (
    select
        class_id,
        title,
        starts_at,
        booking_id,
        user_id,
        booked_at,
        state,
        timestampdiff(day, booked_at, starts_at) as days_before,
        row_kind,
        commit_number
    from booked
)

select * from booking_class
