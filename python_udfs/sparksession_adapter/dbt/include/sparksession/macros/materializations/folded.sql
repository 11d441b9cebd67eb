{#
    A keyed table that a log feeds: each batch is folded and appended as a run to `<model>__runs`,
    and `<model>` is a view that folds the runs. Runs are merged once a level has too many of them.
    See keyed/folds.py of the adapter for what can be declared.
#}
{% materialization folded, adapter='sparksession', supported_languages=['sql', 'python'] %}

    {# validate #}
    {%- do adapter.keyed.declared_fold(model) -%}
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
    {%- set stored_relation = load_relation(runs_relation) -%}
    {%- set is_rebuild = (
        stored_relation is none
        or should_full_refresh()
        or adapter.cut_runs.is_unread(model)
    ) -%}
    {%- set grant_config = config.get('grants') -%}

    {%- if _is_left_as_it_is(existing_relation or stored_relation) -%}
        {{ return({'relations': [target_relation]}) }}
    {%- endif -%}

    {# hooks #}
    {{ _run_hooks(pre_hooks, is_before=true) }}
    {%- do _run_sql_header() -%}
    {%- do adapter.reading.record_inputs(model) -%}

    {# what its rows were made by #}
    {%- set redefined = adapter.definitions.changed_definition(model, is_rebuild) -%}
    {%- set is_rebuild = is_rebuild or redefined == 'rebuild' -%}
    {%- if not is_rebuild -%}
        {%- do adapter.table_properties.keep_up(model) -%}
    {%- endif -%}

    {# build; dbt lets a materialization itself alone run Python #}
    {%- set select_sql = compiled_code -%}
    {%- if model['language'] == 'python' -%}
        {%- if redefined == 'rebuild' -%}
            {%- do adapter.keyed.rebuild(model) -%}
        {%- endif -%}
        {%- set select_sql = (
            'select * from ' ~ adapter.quote(adapter.result_view(model))
        ) -%}
        {%- do adapter.reading.note_context(model, context) -%}
        {%- call statement('main', language='python') -%}
            {{- compiled_code -}}
        {%- endcall -%}
    {%- elif redefined == 'rebuild' -%}
        {%- set select_sql = adapter.changes.rendered_as_first(model, context) -%}
    {%- endif -%}
    {%- if not is_rebuild -%}
        {%- do adapter.keyed.check_rebuilt(
            model, adapter.keyed.runs_history(model), var('rebuild', none)
        ) -%}
    {%- endif -%}
    {#- a Python model that has nothing to add left no rows that a commit could be made of -#}
    {%- set is_unchanged = (
        not is_rebuild
        and (redefined != 'accept' or model['language'] == 'python')
        and adapter.reading.nothing_new(model, graph)
        and not adapter.keyed.is_declared_otherwise(model)
    ) -%}
    {%- set replace_all = false -%}
    {%- if is_unchanged -%}
        {%- call noop_statement('main', message='nothing new', code='', rows_affected=0) -%}
            -- no input has changed since the last commit
        {%- endcall -%}
        {% do _store_commit_report(runs_relation, changed=false) %}
    {%- else -%}
        {%- set news = adapter.reading.plan(model).news -%}
        {%- set replace_all = (
            not is_rebuild and news.reads_whole and not news.tolerates_replay
        ) -%}
        {%- if replace_all and config.get('full_refresh') is false -%}
            {%- do adapter.changes.check_keeps(model, adapter.reading.plan(model)) -%}
        {%- endif -%}
        {%- if replace_all -%}
            {# an input was rewritten: what came of its old rows can't be distinguished from what
               came of the new #}
            {%- if model['language'] == 'python' -%}
                {%- do adapter.keyed.rebuild(model) -%}
                {%- call statement('main', language='python') -%}
                    {{- compiled_code -}}
                {%- endcall -%}
            {%- else -%}
                {%- set select_sql = adapter.keyed.rendered_for_rebuild(model, context) -%}
            {%- endif -%}
        {%- endif -%}
        {%- set batch = _staged_batch(
            _first_rows(select_sql), staging_relation, state_relation, is_rebuild, on_schema_change
        ) -%}
        {%- do adapter.default_reads.check_folded_rows(model, batch.fold, select_sql) -%}
        {%- if (
            not is_rebuild
            and not replace_all
            and adapter.taken_back.is_of_fold(model, batch, select_sql)
        ) -%}
            {#- dbt lets a materialization itself alone run Python -#}
            {%- set replace_all = true -%}
            {%- if model['language'] == 'python' -%}
                {%- do adapter.keyed.rebuild(model) -%}
                {%- call statement('main', language='python') -%}
                    {{- compiled_code -}}
                {%- endcall -%}
            {%- else -%}
                {%- set select_sql = adapter.keyed.rendered_for_rebuild(model, context) -%}
            {%- endif -%}
            {%- set batch = _staged_batch(
                _first_rows(select_sql),
                staging_relation,
                state_relation,
                is_rebuild,
                on_schema_change,
            ) -%}
        {%- endif -%}
        {%- set columns = adapter.get_columns_in_relation(state_relation) -%}
        {%- if not is_rebuild -%}
            {%- set changed = _changed_columns(runs_relation, columns) -%}
            {% do alter_relation_add_remove_columns(runs_relation, changed.new, []) %}
            {%- if changed.gone or (not replace_all and adapter.keyed.run_count(model) == 1) -%}
                {# what readers see must not name columns that go, and reads a single run as it is:
                   not so once there is a second #}
                {% do _fold_runs(
                    target_relation, existing_relation, batch.fold.folded(runs_relation.render(), 2)
                ) %}
            {%- endif -%}
            {% do alter_relation_add_remove_columns(runs_relation, [], changed.gone) %}
            {%- set columns = changed.known -%}
            {%- if changed.new or changed.gone -%}
                {%- set columns = _columns_of_runs(runs_relation) -%}
            {%- endif -%}
        {%- endif -%}
        {%- do adapter.taken_back.note_lookups(model, is_rebuild or replace_all) -%}
        {%- set level = (
            adapter.keyed.record_run(model, batch.fold, is_rebuild or replace_all)
        ) -%}
        {%- if adapter.cut_runs.is_empty_run() -%}
            {%- do adapter.cut_runs.read_nothing(model) -%}
        {%- endif -%}
        {%- call statement('main') -%}
            {%- if is_rebuild -%}
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
    {%- set rebuilt = false -%}
    {%- if not is_rebuild and not replace_all -%}
        {%- set rebuilt = _rebuild_range(
            target_relation,
            existing_relation,
            runs_relation,
            staging_relation,
            state_relation,
            on_schema_change,
        ) -%}
    {%- endif -%}
    {%- set merged = (
        not adapter.cut_runs.is_empty_run() and _merge_runs(runs_relation)
    ) -%}
    {%- set written = merged or rebuilt or not is_unchanged -%}
    {%- set folded_sql = adapter.keyed.stored_sql(model) -%}
    {%- set describes = config.persist_relation_docs() or config.persist_column_docs() -%}
    {%- if (
        written
        or describes
        or adapter.keyed.reads_otherwise(existing_relation, folded_sql)
    ) -%}
        {% do _fold_runs(target_relation, existing_relation, folded_sql) %}
    {%- endif -%}

    {# grants and docs #}
    {% do apply_grants(
        target_relation, grant_config, should_revoke(existing_relation, full_refresh_mode=True)
    ) %}

    {# hooks #}
    {{ _run_hooks(post_hooks, is_before=false) }}

    {{ return({'relations': [target_relation]}) }}

{% endmaterialization %}

{# The table of a folded model's runs. #}
{% macro _runs_relation(relation) %}
    {% do return(api.Relation.create(
        schema=relation.schema, identifier=relation.identifier ~ '__runs', type='table'
    )) %}
{% endmacro %}

{# The rows of a query as a batch, whose state rows are in `state_relation`; nothing is written
   yet. #}
{% macro _staged_batch(
    select_sql, staging_relation, state_relation, is_rebuild, on_schema_change
) %}
    {%- do adapter.reading.record_inputs(model) -%}
    {%- call statement('create_staging_relation') -%}
        {{ create_temporary_view(staging_relation, select_sql) }}
    {%- endcall -%}
    {%- set batch = (
        adapter.keyed.fold_batch(model, staging_relation, is_rebuild, on_schema_change)
    ) -%}
    {%- call statement('create_state_relation') -%}
        {{ create_temporary_view(state_relation, batch.state_rows) }}
    {%- endcall -%}
    {%- do adapter.keyed.check_reading(batch.fold, state_relation) -%}
    {%- if config.get('contract').enforced -%}
        {%- do get_assert_columns_equivalent(batch.fold.folded(state_relation.render(), 2)) -%}
    {%- endif -%}
    {% do return(batch) %}
{% endmacro %}

{# Columns that the state rows have and the table of runs hasn't, and the other way: {known, new,
   gone}. #}
{% macro _changed_columns(runs_relation, state_columns) %}
    {%- set known = _columns_of_runs(runs_relation) -%}
    {%- set names = known | map(attribute='name') | list -%}
    {%- set states = state_columns | map(attribute='name') | list -%}
    {% do return({
        'known': known,
        'new': state_columns | rejectattr('name', 'in', names) | list,
        'gone': known | rejectattr('name', 'in', states) | list,
    }) %}
{% endmacro %}

{# Columns of the state rows in the table of runs, in its order. #}
{% macro _columns_of_runs(runs_relation) %}
    {% do return(
        adapter.get_columns_in_relation(runs_relation) | rejectattr('name', 'eq', 'run_level')
        | list
    ) %}
{% endmacro %}

{#
    Merges the runs of a level that has too many, with those below it; with `--vars 'merge_runs:
    true'` all of them. Whether there was anything to merge.
#}
{% macro _merge_runs(runs_relation) %}
    {%- set merge = (
        adapter.keyed.record_compaction(model, var('merge_runs', false))
    ) -%}
    {%- if merge is none -%}
        {%- do return(false) -%}
    {%- endif -%}
    {% do adapter.keyed.group_reads() %}
    {%- call statement('merge_runs') -%}
        {{ adapter.keyed.merge_statement(merge, runs_relation) }}
    {%- endcall -%}
    {% do adapter.keyed.has_committed(model) %}
    {% do return(true) %}
{% endmacro %}

{#
    Of a zipper with `--vars 'rebuild: {from: .., to: ..}'`: what is stored of changes of that time
    is replaced by what the log has now, the rest isn't touched. A change is of that time if it
    is stored so or the log dates it so, and there is once afterwards, whatever key and time it was
    stored under: all changes of its sequence are rebuilt with it. First the changes are added,
    which changes nothing where they are right, then the others go: a run that stops in between is
    made good by the next run with the same vars; until then other runs, and readers, are refused.
#}
{% macro _rebuild_range(
    target_relation,
    existing_relation,
    runs_relation,
    staging_relation,
    state_relation,
    on_schema_change
) %}
    {%- set range = adapter.keyed.range_to_rebuild(model, var('rebuild', none)) -%}
    {%- if range is none -%}
        {%- do return(false) -%}
    {%- endif -%}
    {%- set given_or_stored -%}
        with zipper__log as (
            {{ adapter.keyed.rendered_for_rebuild(model, context) }}
        )

        select * from zipper__log
        where
            {{ range.condition }}
            or ({{ range.sequence }}) in (
                select {{ range.sequence }} from zipper__log where {{ range.condition }}
                union all
                select {{ range.sequence }} from {{ runs_relation }} where {{ range.condition }}
            )
    {%- endset -%}
    {%- set batch = _staged_batch(
        given_or_stored,
        staging_relation,
        state_relation,
        false,
        on_schema_change,
    ) -%}
    {# there are two runs from now on, if not before #}
    {% do _fold_runs(target_relation, existing_relation, batch.fold.folded(runs_relation.render(), 2)) %}
    {%- set level = adapter.keyed.record_rebuilt_run(model, batch.fold, var('rebuild')) -%}
    {%- call statement('rebuild_range') -%}
        insert into {{ runs_relation }}
        {{ batch.fold.written(
            state_relation.render(), level, _columns_of_runs(runs_relation)
        ) }}
    {%- endcall -%}
    {% do adapter.keyed.has_committed(model) %}
    {% do adapter.keyed.record_rebuilt_run(model, batch.fold, var('rebuild'), level) %}
    {%- call statement('drop_range') -%}
        delete from {{ runs_relation }}
        where
            run_level > {{ level }}
            and (
                {{ range.condition }}
                or ({{ range.sequence }}) in (
                    select {{ range.sequence }} from {{ runs_relation }} where run_level = {{ level }}
                )
            )
    {%- endcall -%}
    {% do adapter.keyed.has_committed(model) %}
    {%- do return(true) -%}
{% endmacro %}

{# Writes the view that readers see. #}
{% macro _fold_runs(target_relation, existing_relation, select_sql) %}
    {% do _drop_if_other_kind(existing_relation, 'view') %}
    {% do _make_view(target_relation, select_sql, 'fold_runs') %}
{% endmacro %}

{# As dbt's own, and of folded models whether their runs are there. #}
{% macro is_incremental() %}
    {#- a unit test has no relation of its own -#}
    {%- if not execute or this is none -%}
        {%- do return(false) -%}
    {%- endif -%}
    {%- set kind = model.config.materialized -%}
    {%- set relation = load_relation(_runs_relation(this) if kind == 'folded' else this) -%}
    {%- do return(
        relation is not none
        and relation.type == 'table'
        and kind in ('incremental', 'folded')
        and not should_full_refresh()
        and not adapter.cut_runs.is_unread(model)
    ) -%}
{% endmacro %}
