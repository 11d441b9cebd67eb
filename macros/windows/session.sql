{#
    Each row with the session of its key that it belongs to: rows of a key that follow each other
    within `gap` are one session. Without a key those of all rows are.

        time        10:00 10:10        11:00     11:25      gap '30 minutes'
        user 77       a     b            c         d
        sessions    |-----------|      |---------------|
                    10:00 to 10:40     11:00 to 11:55

    A session begins with its first row and ends `gap` after its last one (window_start,
    window_end); rows that lie exactly `gap` apart are of one session, as in Spark's session_window
    and in Flink. window_date is the zone's day in which it begins; a session may go on behind it.
    Rows whose key is null are those of one more key.

    Late data: a row that comes between two sessions joins them, one that is retracted splits its
    session, in the run that reads the retraction; whatever the batches, the sessions are those of
    all rows at once. The relation's rows have to be those that are: a table or a folded model, not
    a stream of retract rows.

    Cost of a run of a model of strategy replace_windows (see tumble): the new rows; of the touched
    keys the stored sessions that lie within `gap` of a new row, and the rows of these sessions;
    the model's own rows of the days in which these begin, which are written with them. Let sort_by
    begin with the key, so that few files of those days are opened. All rows of a key are sorted
    in one task when the model is rebuilt. A model that leaves sessions out (having count(*) > 1)
    reads all rows of the keys for which a row of such a session lies within `gap` of what is
    touched. Without a key all rows are those of one key: they are sorted in one task when the model
    is rebuilt, and a run compares the rows near what is touched with each touched session.
#}
{% macro session(rows, time, key=none, gap=none, zone=none, where=none, bounds=none) -%}
    {{- _windowed({
        'form': 'session',
        'rows': rows,
        'time': time,
        'key': key,
        'gap': gap,
        'zone': zone,
        'where': where,
        'bounds': bounds,
    }) -}}
{%- endmacro %}

{% macro _session_rows(window, rows) -%}
    {%- set of_key = 'partition by ' ~ window.key | join(', ') if window.key else '' -%}
    select
        * except (window__at, window__begins, window__start),
        window__start as window_start,
        max(window__at) over (
            partition by {{ _and_key(window) }}window__start
        ) + {{ window.gap }} as window_end,
        {{ _window_date(window, 'window__start') }} as window_date
    from (
        select
            *,
            max(if(window__begins, window__at, null)) over (
                {{ of_key }}
                order by window__at
            ) as window__start
        from (
            select
                *,
                coalesce(
                    window__at - {{ window.gap }} > lag(window__at) over (
                        {{ of_key }}
                        order by window__at
                    ),
                    true
                ) as window__begins
            from (
                {{ _valid_rows(window, rows) }}
            ) as valid_rows
        ) as following_rows
    ) as started_rows
{%- endmacro %}

{#
    The rows of those sessions that a change touches, before it or after it. A changed time touches
    the stored sessions of its key that lie within the gap; what is left of these and the time
    itself are all that the new sessions can be made of, since any other lies further away. Changed
    times that follow each other within the gap are one span: they touch what lies between them.
#}
{% macro _touched_sessions(window, all_rows, changes) -%}
    {%- set keeps = (
        adapter.ranges.writes(flags) and not adapter.reading.nothing_new(model, graph)
    ) -%}
    {%- set keys = _and_key(window) -%}
    {%- set times -%}
        (
            select distinct
                {{ keys }}window_start as first_at,
                window_end - {{ window.gap }} as last_at
            from (
                {{ _session_rows(window, changes) }}
            )
        )
    {%- endset -%}
    {%- set near = 'true' -%}
    {%- if keeps -%}
        {%- set times = (
            adapter.ranges.materialize_once(model, 'touched_times', 'select * from ' ~ times)
        ) -%}
        {%- set near = (
            adapter.ranges.pruning_condition(times, window.near_keys).condition ~ ' and '
            ~ adapter.windows.near_spans(times, 'first_at', 'last_at + ' ~ window.gap)
        ) -%}
    {%- endif -%}
    {%- set stored -%}
        (
            select distinct {{ keys }}window_start, window_end
            from (
                select {{ keys }}window_start, window_end
                from {{ this }}
                where {{ near }}
            ) as held
            left semi join {{ times }} as touched
                on {{ _same_session_key(window, 'held', 'touched') }}
                and held.window_start <= touched.last_at + {{ window.gap }}
                and held.window_end >= touched.first_at
        )
    {%- endset -%}
    {%- if keeps -%}
        {%- set stored = adapter.ranges.materialize_once(
            model, 'touched_sessions', 'select * from ' ~ stored
        ) -%}
    {%- endif -%}
    {%- set spans -%}
        (
            select {{ keys }}first_at, last_at
            from {{ times }}
            union all
            select {{ keys }}window_start, window_end - {{ window.gap }}
            from {{ stored }}
        )
    {%- endset -%}
    {%- set near = 'true' -%}
    {%- if keeps -%}
        {%- set spans = (
            adapter.ranges.materialize_once(model, 'touched_spans', 'select * from ' ~ spans)
        ) -%}
        {%- set lost = adapter.ranges.materialize_once(
            model, 'lost_keys', _keys_of_lost_neighbours(window, all_rows, spans)
        ) -%}
        {%- if adapter.ranges.kept_count(model, lost) -%}
            {%- set stored = adapter.ranges.materialize_once(
                model, 'all_touched_sessions', _sessions_with_lost(window, stored, lost)
            ) -%}
            {%- set spans = adapter.ranges.materialize_once(
                model, 'all_touched_spans', _spans_with_lost(window, all_rows, spans, stored, lost)
            ) -%}
        {%- endif -%}
        {%- set near = (
            adapter.ranges.pruning_condition(spans, window.near_keys + window.near).condition
        ) -%}
        {%- set days -%}
            select distinct
                explode(
                    sequence(
                        {{ _window_date(window, 'first_at') }},
                        {{ _window_date(window, 'last_at') }}
                    )
                )
            from {{ spans }}
        {%- endset -%}
        {%- do adapter.windows.touch_windows(model, window, stored, days) -%}
    {%- endif -%}
    {%- set rows -%}
        (
            select near_rows.*
            from (
                select * from {{ all_rows }} where {{ near }}
            ) as near_rows
            left semi join {{ spans }} as spans
                on {{ _same_session_key(window, 'near_rows', 'spans') }}
                and try_cast(near_rows.{{ window.time }} as timestamp)
                between spans.first_at and spans.last_at
        )
    {%- endset -%}
    {{- _session_rows(window, rows) -}}
{%- endmacro %}

{#
    Keys that have rows within the gap of a touched span which lie in none of them: rows of sessions
    that the model has left out, since it keeps no session of one row, say. What such rows are
    connected with can be seen in the rows alone.
#}
{% macro _keys_of_lost_neighbours(window, all_rows, spans) -%}
    {%- set near = adapter.ranges.pruning_condition(
        spans, window.near_keys + window.near_neighbours
    ).condition -%}
    select distinct {{ window.key | join(', ') if window.key else 'true as is_lost' }}
    from (
        {{ _valid_rows(window, '(select * from ' ~ all_rows ~ ' where ' ~ near ~ ')') }}
    ) as neighbours
    left semi join {{ spans }} as spans
        on {{ _same_session_key(window, 'neighbours', 'spans') }}
        and neighbours.window__at between spans.first_at - {{ window.gap }}
        and spans.last_at + {{ window.gap }}
    left anti join {{ spans }} as inside
        on {{ _same_session_key(window, 'neighbours', 'inside') }}
        and neighbours.window__at between inside.first_at and inside.last_at
{%- endmacro %}

{# The touched sessions, and all that are stored of the lost keys. #}
{% macro _sessions_with_lost(window, stored, lost) -%}
    {%- set keys = _and_key(window) -%}
    select {{ keys }}window_start, window_end
    from {{ stored }}
    union
    select {{ keys }}window_start, window_end
    from {{ this }} as held
    left semi join {{ lost }} as lost on {{ _same_session_key(window, 'held', 'lost') }}
{%- endmacro %}

{# The touched spans, those of all sessions that are stored of the lost keys, and of their rows. #}
{% macro _spans_with_lost(window, all_rows, spans, stored, lost) -%}
    {%- set keys = _and_key(window) -%}
    {%- set near = adapter.ranges.pruning_condition(lost, window.near_keys).condition -%}
    select {{ keys }}first_at, last_at
    from {{ spans }}
    union
    select {{ keys }}window_start, window_end - {{ window.gap }}
    from {{ stored }}
    union
    select {{ keys }}window__at, window__at
    from (
        {{ _valid_rows(window, '(select * from ' ~ all_rows ~ ' where ' ~ near ~ ')') }}
    ) as rows_of_key
    left semi join {{ lost }} as lost on {{ _same_session_key(window, 'rows_of_key', 'lost') }}
{%- endmacro %}

{# The columns of the key before others in a list. #}
{% macro _and_key(window) -%}
    {%- for name in window.key %}{{ name }}, {% endfor -%}
{%- endmacro %}

{# Both sides have the same key; null equals null. #}
{% macro _same_session_key(window, left, right) -%}
    {{- 'true' if not window.key -}}
    {%- for name in window.key -%}
        {{ left }}.{{ name }} <=> {{ right }}.{{ name }}{{ ' and ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}
