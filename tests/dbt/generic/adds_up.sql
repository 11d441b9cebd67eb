{#
    Rows of all grains add up to the same: a group's measure sums up to one total by the rows of
    each grain. Fails with one row per group whose totals differ, or that a grain lacks.

    measure: column that adds up.
    by: columns of a group, the business day among them.
#}
{% test adds_up(model, measure, by) %}

with

totals as (
    select
        grain,
        {{ by | join(', ') }},
        sum({{ measure }}) as total
    from {{ model }}
    group by grain, {{ by | join(', ') }}
    having sum({{ measure }}) <> 0
),

grains as (
    select count(distinct grain) as grain_count
    from {{ model }}
),

differing as (
    select
        {{ by | join(', ') }},
        min(total) as least_total,
        max(total) as greatest_total,
        count(*) as grains_there
    from totals
    group by {{ by | join(', ') }}
    having
        min(total) <> max(total)
        or count(*) < (select grains.grain_count from grains)
)

select * from differing

{% endtest %}
