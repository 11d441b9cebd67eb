{#
    The newest versions, newest first: number, time, how many tables and views have changed,
    what published it.
        dbt run-operation list_versions --args '{limit: 5}'
#}
{% macro list_versions(limit=20) %}
    {% for line in adapter.maintenance.list_versions(limit) %}
        {% do print(line) %}
    {% endfor %}
{% endmacro %}
