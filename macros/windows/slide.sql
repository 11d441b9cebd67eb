{#
    Each row with all windows that its time lies in: they are `size` long, and one begins at every
    `slide`. A row is in size / slide of them.

        time       00:00    00:05    00:10    00:15         size '10 minutes', slide '5 minutes'
        windows    |-----------------|
                            |-----------------|
        rows         a        b                             a: 1 window   b: both

    Starts lie where windows of the length `slide` begin, `offset` later, see tumble. Of a slide of
    up to an hour each window has exactly its size ('1 day' is 24 hours); longer windows go by clock
    and calendar, so that 7 days sliding by a day are 7 of the zone's days, of whatever hours.

    Late data, and the cost of a run: as of tumble; but a row touches size / slide windows, and the
    rows of all of these are read, twice the size of time around each new row at most.
#}
{% macro slide(
    rows, time, size, slide, zone=none, where=none, bounds=none, offset=none
) -%}
    {{- _windowed({
        'form': 'slide',
        'rows': rows,
        'time': time,
        'size': size,
        'slide': slide,
        'offset': offset,
        'zone': zone,
        'where': where,
        'bounds': bounds,
    }) -}}
{%- endmacro %}

{% macro _slid_rows(window, rows) -%}
    {%- if window.part.is_counted and window.is_even -%}
        {%- set start = (
            _counted_start(window.part) ~ ' - window__step * ' ~ window.part.micros
        ) -%}
    select
        * except (window__at, window__day, window__next_day, window__step),
        {{ _later(window, 'timestamp_micros(' ~ start ~ ')') }} as window_start,
        {{ _later(
            window, 'timestamp_micros(' ~ start ~ ' + ' ~ window.size.micros ~ ')'
        ) }} as window_end,
        {{ _window_date(window) }} as window_date
    from (
        {{ _rows_of_days(window, rows) }}
    ) as rows_of_days
    lateral view explode(sequence(0L, {{ window.panes - 1 }}L)) steps as window__step
    {%- elif window.part.is_counted -%}
        {#- where clocks change by half an hour a day may end in the middle of a slide: of the half
            slides before a time those count at which a window begins -#}
        {%- set half = window.part.micros // 2 -%}
        {%- set from_midnight -%}
            unix_micros(window_start)
            - unix_micros(
                {{ _at_zone(window, window.midnight_of('window_start')) }}
            )
        {%- endset %}
    select
        * except (window__at, window_start),
        {{ _later(window, 'window_start') }} as window_start,
        {{ _later(window, 'window_start + ' ~ window.size.interval) }} as window_end,
        {{ _window_date(window, _later(window, 'window_start')) }} as window_date
    from (
        select
            * except (window__day, window__next_day, window__step),
            timestamp_micros({{ _counted_start(window.part) }} - window__step * {{ half }})
                as window_start
        from (
            {{ _rows_of_days(window, rows) }}
        ) as rows_of_days
        lateral view explode(sequence(0L, {{ 2 * window.panes }}L)) steps as window__step
    ) as half_slides
    where
        window_start > window__at - {{ window.size.interval }}
        and pmod({{ from_midnight }}, {{ window.part.micros }}) = 0
    {%- else -%}
        {%- set start = _clock_plus(window.part, 'window__first', '-window__step') -%}
        {%- set end = _clock_plus(
            window.part, 'window__first', window.panes ~ ' - window__step'
        ) %}
    select
        * except (window__at),
        {{ _window_date(window) }} as window_date
    from (
        select
            * except (window__first, window__step),
            {{ _at_zone(window, _later(window, start)) }} as window_start,
            {{ _at_zone(window, _later(window, end)) }} as window_end
        from (
            {{ _rows_by_clock(window, rows) }}
        ) as rows_by_clock
        lateral view explode(sequence(0, {{ window.panes - 1 }})) steps as window__step
    ) as rows_of_windows
    {%- if window.clocks_change %}
    where window_start <= window__at and window__at < window_end
    {%- endif %}
    {%- endif -%}
{%- endmacro %}
