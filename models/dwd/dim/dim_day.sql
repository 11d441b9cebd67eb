with

days as (
    select explode(sequence(date '2000-01-01', date '2099-12-31')) as calendar_day
),

calendar as (
    select
        calendar_day,
        cast(trunc(calendar_day, 'week') as date) as week_start,
        cast(trunc(calendar_day, 'month') as date) as month_start,
        cast(trunc(calendar_day, 'year') as date) as year_start
    from days
)

select * from calendar
