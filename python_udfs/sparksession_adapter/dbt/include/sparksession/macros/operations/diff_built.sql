{#
    How tables and views that were built in another schema differ from the newest version:
    rows added, removed and changed, and some of them. Reads both whole.
        dbt run-operation diff_built --args '{schema: ci}'
#}
{% macro diff_built(schema, rows=5) %}
    {% for line in adapter.differences.diff_built(schema, rows, context) %}
        {% do print(line) %}
    {% endfor %}
{% endmacro %}
