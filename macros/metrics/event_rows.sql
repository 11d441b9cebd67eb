{#
    Events with a verdict on their time, for a model that summaries are made of: the columns, sign,
    reject_reason and cut_date, the business day of the time. A row whose time can't be true has a
    reason, so that it never opens a window.

    time: the column of the event's time, UTC. known_at: one that holds it against a clock that can
    be trusted; the event may lie at most max_ahead_hours behind it and max_behind_days before it.
    Of retract rows known_at must be part of the image, as time is: judged by when a row came, its
    -U would get another answer than its +I.
    day: a column with the day that the rows are partitioned by already; a refused row keeps it.
    Without it a refused row has no day.
#}
{% macro event_rows(
    from_cte, columns, time, known_at, day=none, max_ahead_hours=none, max_behind_days=none
) -%}
    {%- set bounds = _event_bounds(
        var('event_max_ahead_hours') if max_ahead_hours is none else max_ahead_hours,
        var('event_max_behind_days') if max_behind_days is none else max_behind_days,
    ) -%}
    {%- set own_day = (
        'cast(from_utc_timestamp(' ~ time ~ ", '" ~ var('business_zone') ~ "') as date)"
    ) -%}
    select
        {%- for column in columns %}
        {{ column }},
        {%- endfor %}
        sign,
        reject_reason,
        {%- if day %}
        {{ day }} as cut_date
        {%- else %}
        case when reject_reason is null then {{ own_day }} end as cut_date
        {%- endif %}
    from (
        select
            *,
            case
                when {{ time }} is null then 'no {{ time }}'
                when {{ known_at }} is null
                    then 'no {{ known_at }} to hold {{ time }} against'
                when {{ time }} > {{ known_at }} + interval {{ bounds.ahead }} hours
                    then '{{ time }} lies more than {{ bounds.ahead }} hours ahead'
                when {{ time }} < {{ known_at }} - interval {{ bounds.behind }} days
                    then '{{ time }} lies more than {{ bounds.behind }} days back'
                {%- if day %}
                when {{ day }} is distinct from {{ own_day }}
                    then '{{ time }} is of another day than {{ day }}'
                {%- endif %}
            end as reject_reason
        from {{ from_cte }}
    ) as judged
{%- endmacro %}

{% macro _event_bounds(ahead, behind) -%}
    {%- do adapter.declarations.check_whole_numbers(
        'event_rows', 0, {'max_ahead_hours': ahead, 'max_behind_days': behind},
        'vars: {event_max_ahead_hours: 1, event_max_behind_days: 30}, the defaults of both',
    ) -%}
    {%- do return({'ahead': ahead, 'behind': behind}) -%}
{%- endmacro %}
