{#
    Makes few files of many small files, in the order that the tables' models declare, rewrites
    manifests, and publishes the tables as they lie then: the same rows. With `merge_runs` all runs
    of a folded model become one before, which is then read as it is.
        dbt run-operation compact --args '{select: ods_binlog}'
        dbt run-operation compact --args '{select: dwd_trade__order_wide, merge_runs: true}'
#}
{% macro compact(select, merge_runs=false) %}
    {% for line in adapter.compaction.compact(
        _may_be_left_out('select', select), merge_runs, context
    ) %}
        {% do print(line) %}
    {% endfor %}
{% endmacro %}
