{#
    Drops another schema than the target's own, with its tables, their files and its views.
        dbt run-operation drop_built --args '{schema: ci}'
#}
{% macro drop_built(schema) %}
    {% do adapter.drop_schema(
        api.Relation.create(schema=adapter.differences.another_schema(schema))
    ) %}
{% endmacro %}
