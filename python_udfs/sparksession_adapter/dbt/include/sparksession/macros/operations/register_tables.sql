{#
    Brings tables that the catalog doesn't know back from their own newest metadata files, the
    project's views with them: after the catalog was lost, or restored from an old copy. Safe to run
    again.
        dbt run-operation register_tables
#}
{% macro register_tables() %}
    {% for line in adapter.recovery.register_tables(context) %}
        {% do print(line) %}
    {% endfor %}
{% endmacro %}
