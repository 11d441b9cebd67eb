{% materialization snapshot, adapter='sparksession' %}

    {# relations #}
    {%- set existing_relation = adapter.get_relation(
        database=none, schema=schema, identifier=model['alias']
    ) -%}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- set staging_relation = make_temp_relation(target_relation) -%}
    {%- set existing_relation = _without_clone(existing_relation) -%}
    {%- if existing_relation is not none and existing_relation.type == 'view' -%}
        {% do exceptions.relation_wrong_type(existing_relation, 'table') %}
    {%- endif -%}
    {%- if existing_relation is none -%}
        {% do adapter.writer.check_not_dropped(
            schema ~ '.' ~ model['alias'], 'a history of versions'
        ) %}
    {%- endif -%}

    {%- if _is_left_as_it_is(existing_relation) -%}
        {{ return({'relations': [existing_relation]}) }}
    {%- endif -%}
    {%- set is_rebuild = (
        existing_relation is none or adapter.cut_runs.is_unread(model)
    ) -%}

    {# hooks #}
    {{ _run_hooks(pre_hooks, is_before=true) }}
    {%- do _run_sql_header() -%}

    {# build #}
    {%- set is_taken = (
        adapter.seeds.snapshot_is_taken(model, target_relation, context)
    ) -%}
    {%- if not is_rebuild -%}
        {%- do adapter.table_properties.keep_up(model) -%}
    {%- endif -%}
    {%- if not is_taken -%}
        {%- set strategy = strategy_dispatch(config.get('strategy'))(
            model, 'snapshotted_data', 'source_data', model['config'], not is_rebuild
        ) -%}
        {%- do _check_snapshot(strategy, none if is_rebuild else target_relation) -%}
    {%- endif -%}
    {%- if is_taken -%}
        {%- call noop_statement('main', message='nothing new', code='', rows_affected=0) -%}
            -- no input has changed since the last commit
        {%- endcall -%}
    {%- elif is_rebuild -%}
        {%- call statement('main') -%}
            {{ create_table_as(
                False,
                target_relation,
                _first_rows(build_snapshot_table(strategy, model['compiled_code'])),
            ) }}
        {%- endcall -%}
    {%- else -%}
        {%- set meta_columns = (
            config.get('snapshot_table_column_names') or get_snapshot_table_column_names()
        ) -%}
        {%- call statement('build_snapshot_staging_relation') -%}
            {{ create_temporary_view(
                staging_relation, _staged_versions(strategy, sql, target_relation, meta_columns)
            ) }}
        {%- endcall -%}
        {%- set staged_columns = adapter.get_columns_in_relation(staging_relation)
            | rejectattr('name', 'in', ['dbt_change_type', 'dbt_unique_key']) | list -%}
        {%- set target_columns = adapter.get_columns_in_relation(target_relation) -%}
        {#- a rounded value would differ from the query's, and begin a version in each run -#}
        {%- do _check_kept_values(
            staged_columns | rejectattr('name', 'in', meta_columns.values() | list) | list,
            target_relation,
            target_columns,
        ) -%}
        {%- set new_columns = [] -%}
        {%- for column in diff_columns(staged_columns, target_columns) -%}
            {%- if not column.name.startswith('dbt_unique_key_') -%}
                {%- do new_columns.append(column) -%}
            {%- endif -%}
        {%- endfor -%}
        {% do alter_relation_add_remove_columns(target_relation, new_columns, none) %}
        {%- set insert_columns = staged_columns | rejectattr('name', 'in', _unique_key_aliases())
            | map(attribute='quoted') | list -%}
        {%- call statement('main') -%}
            {{ _snapshot_merge(target_relation, staging_relation, insert_columns, meta_columns) }}
        {%- endcall -%}
    {%- endif -%}
    {% do _store_commit_report(target_relation, changed=not is_taken) %}

    {# grants and docs #}
    {% do apply_grants(
        target_relation, config.get('grants'), should_revoke(existing_relation, False)
    ) %}
    {% do persist_docs(target_relation, model) %}

    {# hooks #}
    {%- do adapter.seeds.end_declared() -%}
    {{ _run_hooks(post_hooks, is_before=false) }}

    {{ return({'relations': [target_relation]}) }}

{% endmaterialization %}

{# dbt's staging query names the parts of a composite key so; they are not the model's columns. #}
{% macro _unique_key_aliases() %}
    {% set names = [] %}
    {% for index in range(1, 33) %}
        {% do names.append('dbt_unique_key_' ~ index) %}
    {% endfor %}
    {% do return(names) %}
{% endmacro %}

{#
    What a snapshot writes, as dbt stages it; but where rows have a time of their own, a version whose
    time doesn't lie behind what is known of its key begins when this run sees it: one of a row that
    was gone and is back as it was, of a row that differs while its time doesn't. By its own time it
    would overlap the version before it, or have the id of that and not be written.
#}
{% macro _staged_versions(strategy, sql, target, names) -%}
    {%- set staged = snapshot_staging_table(strategy, sql, target) -%}
    {%- if not config.get('updated_at') -%}
        {{ staged }}
    {%- else -%}
    {%- set keys = ['dbt_unique_key'] -%}
    {%- if strategy.unique_key | is_list -%}
        {%- set keys = _unique_key_aliases()[: strategy.unique_key | length] -%}
    {%- endif -%}
    {%- set open_end = config.get('dbt_valid_to_current') or 'null' -%}
    select
        dated.* except (
            {{ names.dbt_valid_from }}, {{ names.dbt_valid_to }}, {{ names.dbt_scd_id }}, dbt_is_late
        ),
        if(dbt_is_late, {{ snapshot_get_time() }}, dated.{{ names.dbt_valid_from }})
            as {{ names.dbt_valid_from }},
        if(
            dbt_is_late and dated.dbt_change_type = 'update',
            {{ snapshot_get_time() }},
            dated.{{ names.dbt_valid_to }}
        ) as {{ names.dbt_valid_to }},
        if(
            dbt_is_late and dated.dbt_change_type = 'insert',
            {{ snapshot_hash_arguments(['dated.' ~ names.dbt_scd_id, snapshot_get_time()]) }},
            dated.{{ names.dbt_scd_id }}
        ) as {{ names.dbt_scd_id }}
    from (
        select
            staged.*,
            coalesce(staged.{{ names.dbt_valid_from }} <= known.last_time, false) as dbt_is_late
        from (
            {{ staged }}
        ) as staged
        left join (
            select
                {{ keys | join(', ') }},
                max(
                    greatest(
                        {{ names.dbt_valid_from }}, nullif({{ names.dbt_valid_to }}, {{ open_end }})
                    )
                ) as last_time
            from (select *, {{ unique_key_fields(strategy.unique_key) }} from {{ target }}) as held
            group by {{ keys | join(', ') }}
        ) as known
            on {{ unique_key_join_on(strategy.unique_key, 'known', 'staged') }}
    ) as dated
    {%- endif -%}
{%- endmacro %}

{% macro _snapshot_merge(target, source, insert_columns, meta_columns) -%}
    {%- set valid_to = 'dbt_internal_dest.' ~ meta_columns.dbt_valid_to -%}
    merge into {{ target }} as dbt_internal_dest
    using {{ source }} as dbt_internal_source
    on dbt_internal_source.{{ meta_columns.dbt_scd_id }}
        = dbt_internal_dest.{{ meta_columns.dbt_scd_id }}
    when matched
        {%- if config.get('dbt_valid_to_current') %}
        and ({{ valid_to }} = {{ config.get('dbt_valid_to_current') }} or {{ valid_to }} is null)
        {%- else %}
        and {{ valid_to }} is null
        {%- endif %}
        and dbt_internal_source.dbt_change_type in ('update', 'delete')
        then update set
            {{ meta_columns.dbt_valid_to }} = dbt_internal_source.{{ meta_columns.dbt_valid_to }}
    when not matched and dbt_internal_source.dbt_change_type = 'insert'
        then insert ({{ insert_columns | join(', ') }})
        values (
            {%- for name in insert_columns -%}
                dbt_internal_source.{{ name }}{{ ', ' if not loop.last }}
            {%- endfor -%}
        )
{%- endmacro %}
