{% materialization view, adapter='sparksession' %}

    {# relations #}
    {%- set existing_relation = adapter.get_relation(
        database=none, schema=schema, identifier=model['alias']
    ) -%}
    {%- set target_relation = this.incorporate(type='view') -%}
    {%- set grant_config = config.get('grants') -%}

    {%- if _is_left_as_it_is(existing_relation) -%}
        {{ return({'relations': [existing_relation]}) }}
    {%- endif -%}

    {# hooks #}
    {{ run_hooks(pre_hooks) }}

    {# build #}
    {% do _drop_if_other_kind(existing_relation, 'view') %}
    {%- if adapter.views.stands(model, target_relation, sql) -%}
        {%- call noop_statement('main', message='OK', code='', rows_affected=0) -%}
            -- it was written by this query, and its inputs have the columns that they had then
        {%- endcall -%}
    {%- else -%}
        {%- call statement('main') -%}
            {{ get_create_view_as_sql(target_relation, sql) }}
        {%- endcall -%}
    {%- endif -%}

    {# grants and docs #}
    {% do apply_grants(
        target_relation, grant_config, should_revoke(existing_relation, full_refresh_mode=True)
    ) %}

    {# hooks #}
    {{ run_hooks(post_hooks) }}

    {{ return({'relations': [target_relation]}) }}

{% endmaterialization %}
