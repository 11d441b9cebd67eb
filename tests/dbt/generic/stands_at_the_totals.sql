{#
    On the last day of a running sum each group stands where the totals have it; a group of which
    nothing is left may be missing in either. Fails with the groups that differ.

    totals: relation of the totals, `ref('..')`.
    group_by: column of the groups, which both have.
    measure: column that both have.
#}
{% test stands_at_the_totals(model, totals, group_by, measure) %}

with

last_day as (
    select {{ group_by }} as group_value, {{ measure }} as standing
    from {{ model }}
    where cut_date = (select max(cut_date) from {{ model }})
),

to_date as (
    select {{ group_by }} as group_value, sum({{ measure }}) as total
    from {{ totals }}
    group by {{ group_by }}
),

differing as (
    select
        coalesce(last_day.group_value, to_date.group_value) as group_value,
        last_day.standing,
        to_date.total
    from last_day
    full join to_date on last_day.group_value <=> to_date.group_value
    where coalesce(last_day.standing, 0) <> coalesce(to_date.total, 0)
)

select * from differing

{% endtest %}
