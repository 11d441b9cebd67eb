{#
    Forgets versions that are neither among the newest `versions_kept` nor of the last
    `versions_days` (vars) nor tagged, and lets go of the snapshots that neither a version nor a
    run to come needs.
        dbt run-operation expire_versions --args '{keep: 10, days: 7}'
#}
{% macro expire_versions(keep=none, days=none) %}
    {% for line in adapter.retention.expire_versions(
        var('versions_kept', 10) if keep is none else keep,
        var('versions_days', 7) if days is none else days,
        context
    ) %}
        {% do print(line) %}
    {% endfor %}
{% endmacro %}
