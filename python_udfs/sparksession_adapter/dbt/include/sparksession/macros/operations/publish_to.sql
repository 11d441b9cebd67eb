{#
    Lets stores outside hold a version: the tables that exposures with `meta.publish` name. Of a
    store that holds an earlier version only what changed is written. Safe to run again.
        dbt run-operation publish_to
        dbt run-operation publish_to --args '{target: serving, version: 3}'
#}
{% macro publish_to(target, version) %}
    {% for line in adapter.publications.publish_to(
        _may_be_left_out('target', target), _may_be_left_out('version', version), context
    ) %}
        {% do print(line) %}
    {% endfor %}
{% endmacro %}
