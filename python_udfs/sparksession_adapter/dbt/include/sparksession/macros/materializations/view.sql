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
    {{ _run_hooks(pre_hooks, is_before=true) }}
    {%- do _run_sql_header() -%}

    {# build #}
    {% do _drop_if_other_kind(existing_relation, 'view') %}
    {% do _make_view(target_relation, sql) %}

    {# grants and docs #}
    {% do apply_grants(
        target_relation, grant_config, should_revoke(existing_relation, full_refresh_mode=True)
    ) %}

    {# hooks #}
    {{ _run_hooks(post_hooks, is_before=false) }}

    {{ return({'relations': [target_relation]}) }}

{% endmaterialization %}
