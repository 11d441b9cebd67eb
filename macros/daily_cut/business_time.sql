{#
    What the clock of the business zone (the var business_zone) shows at an instant, as SQL. Times
    are stored in UTC and days are cut in the business zone, so an hour of the day is
    hour({{ business_time('create_time') }}), and never hour(create_time).
#}
{% macro business_time(time) -%}
    from_utc_timestamp({{ time }}, '{{ var('business_zone') }}')
{%- endmacro %}
