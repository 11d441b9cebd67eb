{% materialization table, adapter='sparksession', supported_languages=['sql', 'python'] %}

    {# relations #}
    {%- set existing_relation = adapter.get_relation(
        database=none, schema=schema, identifier=model['alias']
    ) -%}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- set grant_config = config.get('grants') -%}

    {%- if _is_left_as_it_is(existing_relation) -%}
        {{ return({'relations': [existing_relation]}) }}
    {%- endif -%}

    {# hooks #}
    {{ _run_hooks(pre_hooks, is_before=true) }}
    {%- do _run_sql_header() -%}
    {%- do adapter.reading.record_inputs(model) -%}

    {# build; it may be incremental later, and its rows are of this definition then #}
    {%- do adapter.definitions.changed_definition(model, true) -%}
    {%- if model['language'] == 'python' -%}
        {%- do adapter.reading.note_context(model, context) -%}
        {%- call statement('main', language='python') -%}
            {{- compiled_code -}}
        {%- endcall -%}
        {%- do adapter.reading.record_inputs(model) -%}
        {%- set select_sql = (
            'select * from ' ~ adapter.quote(adapter.result_view(model))
        ) -%}
    {%- else -%}
        {%- set select_sql = compiled_code -%}
    {%- endif -%}
    {%- do adapter.counts.check_values(model, select_sql) -%}
    {% do _drop_if_other_kind(existing_relation, 'table') %}
    {%- call statement('main') -%}
        {#- it may be merged into later, which takes for granted that each key has one row -#}
        {{ create_table_as(
            False,
            target_relation,
            _first_rows(
                _unique_rows(config.get('incremental_strategy'), _with_constraints(select_sql))
            ),
        ) }}
    {%- endcall -%}
    {% do _store_commit_report(target_relation) %}

    {# grants and docs #}
    {% do apply_grants(
        target_relation, grant_config, should_revoke(existing_relation, full_refresh_mode=True)
    ) %}
    {% do persist_docs(target_relation, model) %}

    {# hooks #}
    {{ _run_hooks(post_hooks, is_before=false) }}

    {{ return({'relations': [target_relation]}) }}

{% endmaterialization %}
