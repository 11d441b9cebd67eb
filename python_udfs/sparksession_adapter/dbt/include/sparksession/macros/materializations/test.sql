{#
    As dbt's own, but a test isn't run again where by the newest version it passed, or warned, on
    the very rows, by the very query (`dbt build` of a project that publishes). `--vars
    'test_again: true'` runs it.
#}
{% materialization test, adapter='sparksession' %}

    {%- set proof = none -%}
    {%- if flags.WHICH == 'build' and not should_store_failures() and model.resource_type == 'test' -%}
        {%- set proof = adapter.versions.test_proof(model, sql, context) -%}
    {%- endif -%}
    {%- set known = none if var('test_again', false) else adapter.versions.known_result(model, proof) -%}
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
