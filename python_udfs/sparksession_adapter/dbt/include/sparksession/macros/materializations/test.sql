{#
    As dbt's own, but a test isn't run again where by the newest version it passed on the very
    rows, by the very query (`dbt build` of a project that publishes). `--vars 'test_again: true'`
    runs it.
#}
{% materialization test, adapter='sparksession' %}

    {%- set proof = none -%}
    {%- if flags.WHICH == 'build' and not should_store_failures() and model.resource_type == 'test' -%}
        {%- set proof = adapter.versions.test_proof(model, sql, context) -%}
    {%- endif -%}
    {%- if not var('test_again', false) and adapter.versions.is_proved(model, proof) -%}
        {%- do store_raw_result(
            'main',
            message='OK',
            code='',
            rows_affected=0,
            agate_table=adapter.versions.passed_test(),
        ) -%}
        {{ return({'relations': []}) }}
    {%- endif -%}
    {{ return(dbt.materialization_test_default()) }}

{% endmaterialization %}
