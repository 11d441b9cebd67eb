{#
    Start, as a UTC timestamp, of the window that a time lies in: of 5m, 10m, 15m, 30m, 1h or 1d by
    the clock of the business zone. A day begins at the zone's midnight and may have 23 or 25 hours;
    an hour that a change of the clocks repeats is two windows.
#}
{% macro window_start(time, grain) -%}
    {%- set sizes = _window_sizes() -%}
    {%- do adapter.declarations.check_grain('window_start', grain, sizes | list) -%}
    {%- set zone = "'" ~ var('business_zone') ~ "'" -%}
    {%- set local = 'from_utc_timestamp(' ~ time ~ ', ' ~ zone ~ ')' -%}
    {%- if grain == '1d' -%}
        to_utc_timestamp(date_trunc('day', {{ local }}), {{ zone }})
    {%- else -%}
        timestamp_seconds(
            unix_seconds({{ time }}) - pmod(unix_seconds({{ local }}), {{ sizes[grain] }})
        )
    {%- endif -%}
{%- endmacro %}

{# End of the window that begins at `start`, see window_start. #}
{% macro _window_end(start, grain) -%}
    {%- if grain == '1d' -%}
        {%- set zone = "'" ~ var('business_zone') ~ "'" -%}
        to_utc_timestamp(
            date_trunc('day', from_utc_timestamp({{ start }}, {{ zone }})) + interval 1 day,
            {{ zone }}
        )
    {%- else -%}
        {{ start }} + interval {{ _window_sizes()[grain] }} seconds
    {%- endif -%}
{%- endmacro %}

{# Grain -> its size in seconds; of a day the usual one. #}
{% macro _window_sizes() -%}
    {%- do return({
        '5m': 300, '10m': 600, '15m': 900, '30m': 1800, '1h': 3600, '1d': 86400
    }) -%}
{%- endmacro %}
