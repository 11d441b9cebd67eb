{#
    Forgets versions that are neither among the newest `versions_kept` nor of the last
    `versions_days` (vars) nor tagged, and lets go of the snapshots that neither a version nor a
    run to come needs.
        dbt run-operation expire_versions --args '{keep: 10, days: 7}'
#}
{% macro expire_versions(keep, days) %}
    {% for line in adapter.retention.expire_versions(
        _may_be_left_out('keep', keep, var('versions_kept', 10)),
        _may_be_left_out('days', days, var('versions_days', 7)),
        context
    ) %}
        {% do print(line) %}
    {% endfor %}
{% endmacro %}
