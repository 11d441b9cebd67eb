{#
    The rows whose time opens no window, with reject_reason: it is null, can't be read (a text that
    is no time), or lies outside of what `bounds` allows. What a window macro with the same rows,
    time, where and bounds leaves out: each row is in either.

    bounds: {earliest, latest: dates or times, UTC where they name no zone, the latest excluded;
    received: column of when the row was received, ahead: how far the event time may lie behind
    that, '1 day'}. Without them the vars event_time_earliest and event_time_latest hold.

    Cost: reads the rows once; with rows=new_rows(ref('x')) in an appending model only new rows.
#}
{% macro window_rejects(rows, time, where=none, bounds=none) -%}
    {{- _windowed({
        'form': 'window_rejects',
        'rows': rows,
        'time': time,
        'where': where,
        'bounds': bounds,
    }) -}}
{%- endmacro %}

{% macro _rejected_rows(window, rows) -%}
    select *
    from (
        select
            * except (window__at),
            case
                {%- for condition, reason in window.invalid %}
                when {{ condition }} then {{ _sql_text(reason) }}
                {%- endfor %}
            end as reject_reason
        from (
            {{ _timed_rows(window, rows) }}
        ) as timed_rows
    ) as judged_rows
    where reject_reason is not null
{%- endmacro %}
