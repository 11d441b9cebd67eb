{% materialization seed, adapter='sparksession' %}

    {# relations #}
    {%- set existing_relation = adapter.get_relation(
        database=none, schema=schema, identifier=model['alias']
    ) -%}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- set staging_relation = make_temp_relation(target_relation) -%}
    {%- set agate_table = load_agate_table() -%}
    {%- do adapter.seeds.check_header(model, agate_table) -%}
    {%- do store_result('agate_table', response='OK', agate_table=agate_table) -%}
    {%- if _is_left_as_it_is(existing_relation) -%}
        {{ return({'relations': [existing_relation]}) }}
    {%- endif -%}
    {%- set existing_relation = _without_clone(existing_relation) -%}
    {%- if existing_relation is not none and existing_relation.type == 'view' -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ': it would be stored as ' ~ existing_relation ~ ', which is a view or a '
            ~ 'keyed table. Drop that by hand, or give the seed another name or alias.'
        ) }}
    {%- endif -%}

    {# hooks #}
    {{ _run_hooks(pre_hooks, is_before=true) }}

    {# build: the cells go in as data, never as SQL; the table is replaced in one commit #}
    {%- set is_loaded = adapter.seeds.seed_is_loaded(model, target_relation) -%}
    {%- if is_loaded and existing_relation is not none and not should_full_refresh() -%}
        {%- call noop_statement('main', message='nothing new', code='', rows_affected=0) -%}
            -- the file is what the table was loaded from
        {%- endcall -%}
        {% do _store_commit_report(target_relation, changed=false) %}
    {%- else -%}
        {%- do adapter.seeds.stage_seed(staging_relation.identifier, agate_table) -%}
        {%- set column_types = config.get('column_types') or {} -%}
        {%- set select_sql -%}
            select
                {%- for name in agate_table.column_names %}
                {%- set type = (
                    column_types.get(name, adapter.convert_type(agate_table, loop.index0))
                ) %}
                cast({{ adapter.quote(name) }} as {{ type }}) as {{ adapter.quote(name) }}
                {{- ',' if not loop.last }}
                {%- endfor %}
            from {{ staging_relation }}
        {%- endset -%}
        {%- call statement('main') -%}
            {{ create_table_as(False, target_relation, _first_rows(select_sql)) }}
        {%- endcall -%}
        {% do _store_commit_report(target_relation) %}
    {%- endif -%}

    {# grants and docs #}
    {% do apply_grants(
        target_relation, config.get('grants'), should_revoke(existing_relation, True)
    ) %}
    {% do persist_docs(target_relation, model) %}

    {# hooks #}
    {%- do adapter.seeds.end_declared() -%}
    {{ _run_hooks(post_hooks, is_before=false) }}

    {{ return({'relations': [target_relation]}) }}

{% endmaterialization %}
