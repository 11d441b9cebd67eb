{#
    Where one version differs from another: per table and view the rows added, removed and
    changed, and some of them. Reads the tables that differ, whole, as of both versions.
        dbt run-operation diff_versions --args '{first: 3, last: 4, select: ods_binlog}'
#}
{% macro diff_versions(first, last, select, rows=5) %}
    {% for line in adapter.differences.diff_versions(
        first, last, _may_be_left_out('select', select), rows, context
    ) %}
        {% do print(line) %}
    {% endfor %}
{% endmacro %}
