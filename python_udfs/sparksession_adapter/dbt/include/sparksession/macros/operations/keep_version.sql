{#
    Gives a version a tag, by which it can be read and which keeps it from being expired; without a
    tag it takes the tag away.
        dbt run-operation keep_version --args '{version: 3, tag: payout_2026_03}'
#}
{% macro keep_version(version, tag) %}
    {% for line in adapter.retention.keep_version(
        version, _may_be_left_out('tag', tag)
    ) %}
        {% do print(line) %}
    {% endfor %}
{% endmacro %}
