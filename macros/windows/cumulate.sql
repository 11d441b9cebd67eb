{#
    Each row with those windows that begin where one of `size` does, end a step later each, and
    hold its time: what has come since the day began, hour by hour.

        time       00:00     08:00     16:00     24:00      size '1 day', step '8 hours'
        windows    |---------|
                   |-------------------|
                   |-----------------------------|
        rows            a          b                        a: 3 windows   b: the last 2

    Starts and steps lie where windows of these lengths begin, see tumble; a step of up to an hour
    needs a size of up to a day. With an `offset`, see tumble, steps are counted from where their
    window begins. The last one ends with the whole, shorter where a clock changes.

    Late data, and the cost of a run: as of tumble; but a row touches all windows behind it in the
    same `size`, and the rows of these are read from where that begins.
#}
{% macro cumulate(
    rows, time, size, step, zone=none, where=none, bounds=none, offset=none
) -%}
    {{- _windowed({
        'form': 'cumulate',
        'rows': rows,
        'time': time,
        'size': size,
        'step': step,
        'offset': offset,
        'zone': zone,
        'where': where,
        'bounds': bounds,
    }) -}}
{%- endmacro %}

{% macro _cumulated_rows(window, rows) -%}
    {%- if window.part.is_counted -%}
        {%- set clock = _earlier(window, _clock(window, 'window__at')) -%}
        {%- set begun = _begun(window, _clock_floor(window.size, clock), window.size) -%}
        {%- set last = _clock_plus(window.size, 'window__begun', 1) -%}
        {%- set last = _at_zone(window, _later(window, last)) -%}
        {%- set first = _at_zone(window, _later(window, 'window__begun')) -%}
        {#- of a window that begins at no midnight the steps are counted from where it begins -#}
        {%- set since = 'window_start' if window.shift else 'window__day' -%}
        {%- if window.size.is_counted -%}
            {%- set begun = 'timestamp_micros(' ~ _counted_start(window.size) ~ ')' -%}
            {%- set last = 'window__begun + ' ~ window.size.interval -%}
            {%- set last = 'least(' ~ last ~ ', window__next_day)' -%}
            {%- set first = _later(window, 'window__begun') -%}
            {%- set since = 'window__day' -%}
        {%- endif -%}
        {%- set end -%}
            least(
                timestamp_micros(
                    unix_micros({{ since }}) + window__step * {{ window.part.micros }}
                ),
                window__last
            )
        {%- endset %}
    select
        * except (
            window__at, window__day, window__next_day, window__begun, window__last, window__step
        ),
        {{ _later(window, end) if window.is_shifted_evenly else end }} as window_end,
        {{ _window_date(window) }} as window_date
    from (
        select
            *,
            {{ first }} as window_start,
            {{ last }} as window__last
        from (
            select
                *,
                {{ begun }} as window__begun
            from (
                {{ _rows_of_days(window, rows) }}
            ) as rows_of_days
        ) as begun_rows
    ) as rows_of_windows
    lateral view
        explode(
            {{ _steps(
                '(unix_micros(window__at) - unix_micros(' ~ since ~ ')) div '
                ~ window.part.micros ~ ' + 1',
                '(unix_micros(window__last) - unix_micros(' ~ since ~ ') + '
                ~ (window.part.micros - 1) ~ ') div ' ~ window.part.micros,
            ) }}
        ) steps as window__step
    {%- else -%}
        {%- set last = _clock_plus(window.size, 'window__whole', 1) -%}
        {%- if window.part.months -%}
            {%- set count -%}
                (
                    (year({{ last }}) - year(window__first)) * 12
                    + month({{ last }}) - month(window__first)
                ) div {{ window.part.months }}
            {%- endset -%}
        {%- else -%}
            {%- set count -%}
                (unix_micros({{ last }}) - unix_micros(window__first))
                div {{ window.part.micros }}
            {%- endset -%}
        {%- endif %}
        {%- set end = _at_zone(
            window,
            _later(
                window, _clock_plus(window.part, 'window__first', 'cast(window__step as int)')
            ),
        ) -%}
        {%- set steps = _steps('1L', count) -%}
        {%- if window.clocks_change -%}
            {#- of ends that the clocks skip several may be one instant, where one window ends -#}
            {%- set ends = (
                'array_distinct(transform(' ~ steps ~ ', window__step -> ' ~ end ~ '))'
            ) -%}
            {%- set steps, end = ends, 'window__step' -%}
        {%- endif %}
    select
        * except (window__at, window__first, window__whole, window__step),
        {{ _at_zone(window, _later(window, 'window__whole')) }} as window_start,
        {{ end }} as window_end,
        {{ _window_date(window) }} as window_date
    from (
        select
            *,
            {{ _clock_floor(window.size, 'window__first') }} as window__whole
        from (
            {{ _rows_by_clock(window, rows) }}
        ) as rows_by_clock
    ) as rows_of_windows
    lateral view explode({{ steps }}) steps as window__step
    {%- if window.clocks_change %}
    where window__step > window__at
    {%- endif %}
    {%- endif -%}
{%- endmacro %}

{# The numbers from `first` to `last`: at least `first`, never backwards. #}
{% macro _steps(first, last) -%}
    sequence({{ first }}, greatest({{ first }}, {{ last }}))
{%- endmacro %}
