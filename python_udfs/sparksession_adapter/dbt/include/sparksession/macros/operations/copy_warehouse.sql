{#
    Copies the warehouse into another folder, which must be new or empty: all tables with the
    commits that they keep, views and versions. The copy stands for itself. It is a backup; and a
    copy of a backup is what a restore or a move takes.
        dbt run-operation copy_warehouse --args '{to: /backup/monday}'
#}
{% macro copy_warehouse(to) %}
    {% for line in adapter.copies.copy_warehouse(to) %}
        {% do print(line) %}
    {% endfor %}
{% endmacro %}
