{#
    As dbt's own, but two kinds of tests aren't run: a test that by the newest version passed, or
    warned, on the very rows, by the very query (`dbt build` of a project that publishes), and a
    `not_null` that the metrics of the table's files answer: each file holds no null in the column.
    `--vars 'test_again: true'` runs them.
#}
{% materialization test, adapter='sparksession' %}

    {%- set is_plain = not should_store_failures() and model.resource_type == 'test' -%}
    {%- set proof = none -%}
    {%- if flags.WHICH == 'build' and is_plain -%}
        {%- set proof = adapter.versions.test_proof(model, sql, context) -%}
    {%- endif -%}
    {%- set known = none -%}
    {%- if is_plain and not var('test_again', false) -%}
        {%- set known = adapter.versions.known_result(model, proof) -%}
        {%- if known is none -%}
            {%- set known = adapter.file_metrics.known_result(model, sql) -%}
        {%- endif -%}
    {%- endif -%}
    {%- if known is not none -%}
        {%- do store_raw_result(
            'main',
            message='OK',
            code='',
            rows_affected=0,
            agate_table=known,
        ) -%}
        {{ return({'relations': []}) }}
    {%- endif -%}
    {{ return(dbt.materialization_test_default()) }}

{% endmaterialization %}
