{#
    A keyed table that a log feeds: each batch is folded and appended as a run to `<model>__runs`,
    and `<model>` is a view that folds the runs. Runs are merged once a level has too many of them.
    See folds.py of the adapter for what can be declared.
#}
{% materialization folded, adapter='sparksession', supported_languages=['sql', 'python'] %}

    {# validate #}
    {%- do adapter.declared_fold(model) -%}
    {%- set on_schema_change = incremental_validate_on_schema_change(
        config.get('on_schema_change'), default='ignore'
    ) -%}

    {# relations #}
    {%- set existing_relation = adapter.get_relation(
        database=none, schema=schema, identifier=model['alias']
    ) -%}
    {%- set target_relation = this.incorporate(type='view') -%}
    {%- set runs_relation = _runs_relation(this) -%}
    {%- set staging_relation = make_temp_relation(target_relation) -%}
    {%- set state_relation = make_temp_relation(target_relation, '__dbt_state') -%}
    {%- set make_anew = load_relation(runs_relation) is none or should_full_refresh() -%}
    {%- set grant_config = config.get('grants') -%}

    {# hooks #}
    {{ run_hooks(pre_hooks) }}

    {# build; dbt lets a materialization itself alone run Python #}
    {%- set select_sql = compiled_code -%}
    {%- if model['language'] == 'python' -%}
        {%- set select_sql = 'select * from ' ~ adapter.quote(adapter.result_view(model)) -%}
        {%- call statement('main', language='python') -%}
            {{- compiled_code -}}
        {%- endcall -%}
    {%- endif -%}
    {%- set is_unchanged = not make_anew and adapter.nothing_new(model, graph) -%}
    {%- if is_unchanged -%}
        {%- call noop_statement('main', message='nothing new', code='', rows_affected=0) -%}
            -- no input has changed since the last commit
        {%- endcall -%}
        {% do _store_commit_report(runs_relation, changed=false) %}
    {%- else -%}
        {%- set replace_all = not make_anew and adapter.reads_whole(model) -%}
        {%- if replace_all -%}
            {# an input was rewritten: what came of its old rows can't be told from the new ones #}
            {%- if model['language'] == 'python' -%}
                {%- do adapter.read_anew(model) -%}
                {%- call statement('main', language='python') -%}
                    {{- compiled_code -}}
                {%- endcall -%}
            {%- else -%}
                {%- set select_sql = adapter.rendered_anew(model, context) -%}
            {%- endif -%}
        {%- endif -%}
        {%- do adapter.record_inputs(model) -%}
        {%- call statement('create_staging_relation') -%}
            {{ create_temporary_view(staging_relation, select_sql) }}
        {%- endcall -%}
        {%- set batch = adapter.fold_batch(
            model, staging_relation, make_anew, on_schema_change
        ) -%}
        {%- call statement('create_state_relation') -%}
            {{ create_temporary_view(state_relation, batch.state_rows) }}
        {%- endcall -%}
        {%- set columns = adapter.get_columns_in_relation(state_relation) -%}
        {%- if not make_anew -%}
            {%- if not replace_all and adapter.run_count(model) == 1 -%}
                {# its view reads a single run as it is: not so once there is a second #}
                {% do _fold_runs(target_relation, existing_relation, adapter.stored_sql(model, 2)) %}
            {%- endif -%}
            {%- set columns = _fit_columns(runs_relation, columns) -%}
        {%- endif -%}
        {%- set level = adapter.announce_run(model, batch.fold, make_anew or replace_all) -%}
        {%- call statement('main') -%}
            {%- if make_anew -%}
                create or replace table {{ runs_relation }}
                using iceberg
                partitioned by ({{ batch.fold.partitions }})
                {{ _table_properties({
                    'write.distribution-mode': 'none',
                    'write.spark.fanout.enabled': 'true',
                }) }}
                as
            {%- else -%}
                insert into {{ runs_relation }}{{ ' replace where true' if replace_all }}
            {%- endif %}
            {{ batch.fold.written(state_relation.render(), level, columns) }}
        {%- endcall -%}
        {% do _store_commit_report(runs_relation) %}
    {%- endif -%}
    {%- set written = _merge_runs(runs_relation) or not is_unchanged -%}
    {%- if written -%}
        {% do _fold_runs(target_relation, existing_relation, adapter.stored_sql(model)) %}
    {%- endif -%}

    {# grants and docs #}
    {% do apply_grants(
        target_relation, grant_config, should_revoke(existing_relation, full_refresh_mode=True)
    ) %}

    {# hooks #}
    {{ run_hooks(post_hooks) }}

    {{ return({'relations': [target_relation]}) }}

{% endmaterialization %}

{# The table of a folded model's runs. #}
{% macro _runs_relation(relation) %}
    {% do return(api.Relation.create(
        schema=relation.schema, identifier=relation.identifier ~ '__runs', type='table'
    )) %}
{% endmacro %}

{# Gives the table of runs the columns of the state rows, and takes the others; all its columns. #}
{% macro _fit_columns(runs_relation, state_columns) %}
    {%- set known = _columns_of_runs(runs_relation) -%}
    {%- set names = known | map(attribute='name') | list -%}
    {%- set states = state_columns | map(attribute='name') | list -%}
    {%- set new = state_columns | rejectattr('name', 'in', names) | list -%}
    {%- set gone = known | rejectattr('name', 'in', states) | list -%}
    {%- if not new and not gone -%}
        {% do return(known) %}
    {%- endif -%}
    {% do alter_relation_add_remove_columns(runs_relation, new, gone) %}
    {% do return(_columns_of_runs(runs_relation)) %}
{% endmacro %}

{% macro _columns_of_runs(runs_relation) %}
    {% do return(
        adapter.get_columns_in_relation(runs_relation) | rejectattr('name', 'eq', 'run_level')
        | list
    ) %}
{% endmacro %}

{#
    Merges the runs of a level that has too many, with those below it; with `--vars 'merge_runs: true'`
    all of them. Whether there was anything to merge.
#}
{% macro _merge_runs(runs_relation) %}
    {%- set merge = adapter.announce_compaction(model, var('merge_runs', false)) -%}
    {%- if merge is none -%}
        {%- do return(false) -%}
    {%- endif -%}
    {% do adapter.group_reads() %}
    {%- call statement('merge_runs') -%}
        insert into {{ runs_relation }} replace where run_level <= {{ merge.level }}
        {{ merge.fold.written(
            '(' ~ merge.fold.merged(runs_relation.render(), merge.level, merge.whole)
            ~ ') as fold__merged',
            merge.into,
            _columns_of_runs(runs_relation),
        ) }}
    {%- endcall -%}
    {% do adapter.has_committed(model) %}
    {% do return(true) %}
{% endmacro %}

{# Writes the view that readers see. #}
{% macro _fold_runs(target_relation, existing_relation, select_sql) %}
    {% do _drop_if_other_kind(existing_relation, 'view') %}
    {%- call statement('fold_runs') -%}
        {{ get_create_view_as_sql(target_relation, select_sql) }}
    {%- endcall -%}
{% endmacro %}

{# As dbt's own, and of folded models whether their runs are there. #}
{% macro is_incremental() %}
    {%- if not execute -%}
        {%- do return(false) -%}
    {%- endif -%}
    {%- set kind = model.config.materialized -%}
    {%- set relation = load_relation(_runs_relation(this) if kind == 'folded' else this) -%}
    {%- do return(
        relation is not none
        and relation.type == 'table'
        and kind in ('incremental', 'folded')
        and not should_full_refresh()
    ) -%}
{% endmacro %}
