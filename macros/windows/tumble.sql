{#
    Each row with the window that its time lies in; windows follow each other without a gap.

        time       00:00       00:05       00:10            size '5 minutes'
        windows    |-----------|-----------|-----------
        rows         a    b       c          d
                   a, b: 00:00 to 00:05   c: 00:05 to 00:10   d: 00:10 to 00:15

    `rows` are a relation, or the name of a CTE. The columns window_start and window_end (UTC; the
    end belongs to the next window) and window_date, the zone's day in which the window begins, come
    to those that the rows have. Group by them and by whatever is counted.

    Windows of up to an hour are counted from the zone's midnight and have exactly their size: the
    hour that comes twice when clocks go back is two windows, a day of 23 hours has 23. Longer
    windows go by clock and calendar: days of 23, 24 or 25 hours, weeks from Monday, months; of
    several hours the window in which the clock changes is longer or shorter.

    offset: by how much all windows begin later: of size '1 day' and offset '6 hours' days from six
    to six, of '1 week' and '-1 day' weeks from Sunday, of '1 month' and '14 days' months from the
    15th. Windows of up to an hour lie later by so much time, longer windows on the clock.

        offset '2 minutes'
        windows    ---|-----------|-----------|--------
                      00:02       00:07       00:12

    Late data: a row counts in the window of its own time, whenever it comes. A model of strategy
    replace_windows makes exactly the windows again that a new, changed or retracted row lies in, or
    lay in:

        config(materialized='incremental', incremental_strategy='replace_windows')

    Its table is partitioned by window_date, which it has also where the model's query leaves it
    out. Everything else reads as the relation is read. A row without a valid time opens no window,
    see window_rejects.

    Cost of a run of such a model: the new rows; all rows of the touched windows, found by ranges
    of time that let Iceberg leave files out (of a time that is a text all rows are read); the
    model's own rows of the days in which these windows begin, which are written with them.
#}
{% macro tumble(rows, time, size, zone=none, where=none, bounds=none, offset=none) -%}
    {{- _windowed({
        'form': 'tumble',
        'rows': rows,
        'time': time,
        'size': size,
        'offset': offset,
        'zone': zone,
        'where': where,
        'bounds': bounds,
    }) -}}
{%- endmacro %}

{#
    What a window macro writes. In a model of strategy replace_windows the relation is read by the
    snapshots that the model's commits name; a CTE, or what another macro has read, as it is.
#}
{% macro _windowed(given) -%}
    {%- if not execute -%}
        {%- do config(adapter.windows.derived_config(model, config)) -%}
    {%- else -%}
        {%- set bounds = {
            'earliest': var('event_time_earliest', '2000-01-01'),
            'latest': var('event_time_latest', '2100-01-01'),
        } -%}
        {%- if given.bounds is mapping -%}
            {%- do bounds.update(given.bounds) -%}
        {%- elif given.bounds is not none -%}
            {%- set bounds = given.bounds -%}
        {%- endif -%}
        {%- set zone = given.get('zone') -%}
        {%- if zone is none -%}
            {%- set zone = var('business_zone', 'UTC') -%}
        {%- endif -%}
        {%- set window = adapter.windows.declared_window(
            model, dict(given, zone=zone, bounds=bounds)
        ) -%}
        {%- set rows = given.rows -%}
        {%- if rows is string or rows.is_cte or rows.reading
            or model.config.materialized not in ('table', 'incremental', 'folded') -%}
            {{- _window_rows(window, rows) -}}
        {%- elif model.config.incremental_strategy != 'replace_windows' -%}
            {{- _window_rows(window, pinned(rows)) -}}
        {%- else -%}
            {%- set adds = is_incremental() -%}
            {%- do adapter.windows.record_window(model, window, rows, adds) -%}
            {%- set all_rows = pinned(rows) -%}
            {%- set changes = new_changes(rows) -%}
            {%- if adapter.reading.plan(model).makes_all_rows(adds) -%}
                {{- _window_rows(window, all_rows) -}}
            {%- elif window.form == 'session' -%}
                {{- _touched_sessions(window, all_rows, changes) -}}
            {%- else -%}
                {{- _touched_windows(window, all_rows, changes) -}}
            {%- endif -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}

{# All rows of a `from` with their windows. #}
{% macro _window_rows(window, rows) -%}
    {%- if window.form == 'window_rejects' -%}
        {{- _rejected_rows(window, rows) -}}
    {%- elif window.form == 'session' -%}
        {{- _session_rows(window, rows) -}}
    {%- elif window.form == 'cumulate' -%}
        {{- _cumulated_rows(window, rows) -}}
    {%- elif window.form == 'slide' -%}
        {{- _slid_rows(window, rows) -}}
    {%- else -%}
        {{- _tumbled_rows(window, rows) -}}
    {%- endif -%}
{%- endmacro %}

{#
    The rows of those windows that a change of the rows touches. These are asked for at once and
    kept, because the ranges that they lie in are to stand in the query.
#}
{% macro _touched_windows(window, all_rows, changes) -%}
    {%- set keeps = (
        adapter.ranges.writes(flags) and not adapter.reading.nothing_new(model, graph)
    ) -%}
    {%- set touched -%}
        (
            select distinct window_start, window_end, window_date
            from (
                {{ _window_rows(window, changes) }}
            )
        )
    {%- endset -%}
    {%- set near = 'true' -%}
    {%- if keeps -%}
        {%- set touched = adapter.ranges.materialize_once(
            model, 'touched_windows', 'select * from ' ~ touched
        ) -%}
        {%- set near = adapter.ranges.pruning_condition(touched, window.near).condition -%}
        {%- do adapter.windows.touch_windows(
            model, window, touched, 'select distinct window_date from ' ~ touched
        ) -%}
    {%- endif -%}
    {%- set rows = '(select * from ' ~ all_rows ~ ' where ' ~ near ~ ') as near_rows' -%}
    select windowed.*
    from (
        {{ _window_rows(window, rows) }}
    ) as windowed
    left semi join {{ touched }} as touched
        on
            windowed.window_start = touched.window_start
            and windowed.window_end = touched.window_end
{%- endmacro %}

{# The rows that have a valid time, which is window__at. #}
{% macro _valid_rows(window, rows) -%}
    select *
    from (
        {{ _timed_rows(window, rows) }}
    ) as timed_rows
    where
        {%- for condition, _ in window.invalid %}
        {{ 'and ' if not loop.first }}not ({{ condition }})
        {%- endfor %}
{%- endmacro %}

{% macro _timed_rows(window, rows) -%}
    select
        *,
        try_cast({{ window.time }} as timestamp) as window__at
    from {{ rows }}
    {%- if window.where %}
    where {{ window.where }}
    {%- endif %}
{%- endmacro %}

{% macro _tumbled_rows(window, rows) -%}
    {%- if window.size.is_counted -%}
        {%- set start = _counted_start(window.size) -%}
    select
        * except (window__at, window__day, window__next_day),
        {{ _later(window, 'timestamp_micros(' ~ start ~ ')') }} as window_start,
        {{ _later(
            window,
            'least(timestamp_micros(' ~ start ~ ' + ' ~ window.size.micros
            ~ '), window__next_day)',
        ) }} as window_end,
        {{ _window_date(window) }} as window_date
    from (
        {{ _rows_of_days(window, rows) }}
    ) as rows_of_days
    {%- else -%}
    select
        * except (window__at, window__first),
        {{ _at_zone(window, _later(window, 'window__first')) }} as window_start,
        {{ _at_zone(window, _later(window, _clock_plus(window.size, 'window__first', 1))) }}
            as window_end,
        {{ _window_date(window) }} as window_date
    from (
        {{ _rows_by_clock(window, rows) }}
    ) as rows_by_clock
    {%- endif -%}
{%- endmacro %}

{# The zone's day in which a window begins. #}
{% macro _window_date(window, start='window_start') -%}
    {{- window.date_of(start) -}}
{%- endmacro %}

{#
    What the clock showed as the length began that window__at lies in, where `first` is what the
    clock gives for it. Clocks that are put back over the beginning of a length show the length
    before once more: theirs has begun, and goes on. Clocks that are put forward over it show a
    length whose beginning is later by what they skip: until then the length before goes on. So a
    time always lies in its window.
#}
{% macro _begun(window, first, length) -%}
    {%- if not window.clocks_change -%}
        {{- first -}}
    {%- else -%}
        {%- set next = _clock_plus(length, first, 1) -%}
        {%- set before = _clock_plus(length, first, -1) -%}
        case
            when {{ _at_zone(window, _later(window, next)) }} <= window__at then {{ next }}
            when {{ _at_zone(window, _later(window, first)) }} > window__at then {{ before }}
            else {{ first }}
        end
    {%- endif -%}
{%- endmacro %}

{# A time, or what the clock shows, so much later as the window's offset is; and so much earlier. #}
{% macro _later(window, time) -%}
    {{ time ~ ' + ' ~ window.shift if window.shift else time }}
{%- endmacro %}

{% macro _earlier(window, time) -%}
    {{ time ~ ' - ' ~ window.shift if window.shift else time }}
{%- endmacro %}

{# What the zone's clock shows, as a timestamp; and the instant at which it shows that. #}
{% macro _clock(window, time) -%}
    from_utc_timestamp({{ time }}, {{ window.zone_text }})
{%- endmacro %}

{% macro _at_zone(window, clock) -%}
    to_utc_timestamp({{ clock }}, {{ window.zone_text }})
{%- endmacro %}

{# The valid rows, when their day began (window__day), and when the next day does; all of them
   earlier by an offset that counts as time, not on the clock. #}
{% macro _rows_of_days(window, rows) -%}
    select
        * except (window__midnight),
        {{ _at_zone(window, 'window__midnight') }} as window__day,
        {{ _at_zone(window, "window__midnight + interval '1' day") }} as window__next_day
    from (
        select
            *,
            {{ window.midnight_of('window__at') }} as window__midnight
        from (
            {%- if window.shift and window.is_shifted_evenly %}
            select
                * except (window__at),
                {{ _earlier(window, 'window__at') }} as window__at
            from (
                {{ _valid_rows(window, rows) }}
            ) as shifted_rows
            {%- else %}
            {{ _valid_rows(window, rows) }}
            {%- endif %}
        ) as valid_rows
    ) as rows_of_midnights
{%- endmacro %}

{# When the window of a counted length began that window__at lies in, in microseconds. #}
{% macro _counted_start(length) -%}
    unix_micros(window__day)
    + (unix_micros(window__at) - unix_micros(window__day)) div {{ length.micros }}
    * {{ length.micros }}
{%- endmacro %}

{# The valid rows, and what the clock showed (window__first) as the window's first part began,
   earlier by the offset. #}
{% macro _rows_by_clock(window, rows) -%}
    {%- set clock = _earlier(window, _clock(window, 'window__at')) -%}
    select
        * except (window__floor),
        {{ _begun(window, 'window__floor', window.part) }} as window__first
    from (
        select
            *,
            {{ _clock_floor(window.part, clock) }} as window__floor
        from (
            {{ _valid_rows(window, rows) }}
        ) as valid_rows
    ) as rows_of_floors
{%- endmacro %}

{# Where on the clock the length began that a time of the clock lies in. #}
{% macro _clock_floor(length, clock) -%}
    {%- if length.months -%}
        cast(
            add_months(
                trunc({{ clock }}, 'month'), -pmod(month({{ clock }}) - 1, {{ length.months }})
            ) as timestamp
        )
    {%- else -%}
        timestamp_micros(
            unix_micros({{ clock }})
            - pmod(unix_micros({{ clock }}) - {{ length.anchor }}, {{ length.micros }})
        )
    {%- endif -%}
{%- endmacro %}

{# So many lengths later on the clock. #}
{% macro _clock_plus(length, clock, count) -%}
    {%- if length.months -%}
        cast(add_months({{ clock }}, ({{ count }}) * {{ length.months }}) as timestamp)
    {%- else -%}
        timestamp_micros(unix_micros({{ clock }}) + ({{ count }}) * {{ length.micros }})
    {%- endif -%}
{%- endmacro %}
