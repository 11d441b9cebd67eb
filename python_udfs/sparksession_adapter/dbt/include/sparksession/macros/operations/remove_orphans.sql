{#
    Deletes files in the tables' folders that no snapshot knows. A run that takes over a dead run's
    lease does it by itself.
        dbt run-operation remove_orphans
#}
{% macro remove_orphans() %}
    {% for line in adapter.maintenance.remove_orphans() %}
        {% do print(line) %}
    {% endfor %}
{% endmacro %}
