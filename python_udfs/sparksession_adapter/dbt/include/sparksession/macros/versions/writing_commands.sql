{# dbt commands that write tables. #}
{% macro writing_commands() %}
    {% do return(['run', 'build', 'seed', 'snapshot', 'retry', 'clone']) %}
{% endmacro %}
