{% materialization incremental, adapter='sparksession', supported_languages=['sql', 'python'] %}

    {# validate #}
    {%- set strategy_name = (
        config.get('incremental_strategy')
        or ('merge' if config.get('unique_key') else 'append')
    ) -%}
    {%- set strategy_macro = _incremental_strategy(strategy_name) -%}
    {%- if strategy_name == 'merge' -%}
        {%- do adapter.declarations.check_unique_key(model['name'], config.get('unique_key')) -%}
    {%- endif -%}
    {%- set on_schema_change = incremental_validate_on_schema_change(
        config.get('on_schema_change'), default='ignore'
    ) -%}

    {# relations #}
    {%- set existing_relation = adapter.get_relation(
        database=none, schema=schema, identifier=model['alias']
    ) -%}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- set staging_relation = make_temp_relation(target_relation) -%}
    {%- set full_refresh = should_full_refresh() -%}
    {%- if flags.FULL_REFRESH and config.get('full_refresh') is false
        and existing_relation is not none -%}
        {%- do exceptions.warn(
            model['name'] ~ ' is not rebuilt by --full-refresh: its config has full_refresh: '
            ~ 'false, as what it holds may be nowhere else any more. This run adds to it what is
            new.'
        ) -%}
    {%- endif -%}
    {%- set is_rebuild = (
        existing_relation is none
        or existing_relation.type == 'view'
        or (full_refresh and not adapter.batches.goes_on_with_batches(model))
        or adapter.cut_runs.is_unread(model)
    ) -%}
    {%- set grant_config = config.get('grants') -%}

    {%- if _is_left_as_it_is(existing_relation) -%}
        {{ return({'relations': [existing_relation or target_relation]}) }}
    {%- endif -%}

    {%- if existing_relation is none and config.get('full_refresh') is false -%}
        {%- do adapter.writer.check_not_dropped(schema ~ '.' ~ model['alias'], 'a table') -%}
    {%- endif -%}

    {# hooks #}
    {{ _run_hooks(pre_hooks, is_before=true) }}
    {%- do _run_sql_header() -%}
    {%- do adapter.reading.record_inputs(model) -%}

    {%- if model['language'] == 'sql' -%}
        {%- do adapter.default_reads.check_added_rows(
            model, strategy_name, compiled_code, is_rebuild
        ) -%}
    {%- endif -%}

    {# what its rows were made by #}
    {%- set redefined = adapter.definitions.changed_definition(model, is_rebuild) -%}
    {%- if redefined == 'rebuild' and strategy_name == 'microbatch' -%}
        {#- this batch alone would be left of the table -#}
        {%- do exceptions.raise_compiler_error(
            model.name ~ ': its definition has changed, and dbt makes all batches again with '
            ~ '--full-refresh alone.'
        ) -%}
    {%- endif -%}
    {%- set is_rebuild = is_rebuild or redefined == 'rebuild' -%}
    {%- if not is_rebuild -%}
        {%- do adapter.table_properties.keep_up(model) -%}
    {%- endif -%}

    {# build #}
    {%- if model['language'] == 'python' -%}
        {%- if redefined == 'rebuild' -%}
            {%- do adapter.keyed.rebuild(model) -%}
        {%- endif -%}
        {%- do adapter.reading.note_context(model, context) -%}
        {%- do _allow_worker_files(strategy_name, existing_relation, is_rebuild) -%}
        {%- call statement('main', language='python') -%}
            {{- compiled_code -}}
        {%- endcall -%}
        {%- do adapter.reading.record_inputs(model) -%}
        {%- do adapter.default_reads.check_added_rows(model, strategy_name, '') -%}
        {%- set select_sql = (
            'select * from ' ~ adapter.quote(adapter.result_view(model))
        ) -%}
        {%- if redefined == 'accept' and adapter.reading.nothing_new(model, graph) -%}
            {#- it left no rows, and a commit has to say what was accepted -#}
            {%- set select_sql = 'select * from ' ~ target_relation ~ ' limit 0' -%}
        {%- endif -%}
    {%- elif redefined == 'rebuild' -%}
        {%- set select_sql = adapter.changes.rendered_as_first(model, context) -%}
    {%- else -%}
        {%- set select_sql = compiled_code -%}
    {%- endif -%}

    {%- do adapter.counts.check_values(model, select_sql) -%}
    {%- do adapter.batches.record_batch(model, is_rebuild) -%}
    {%- set keeps_rows = not is_rebuild and strategy_name != 'replace_all' -%}
    {%- do _check_held_rows(target_relation if keeps_rows else none) -%}
    {%- if is_rebuild -%}
        {%- do adapter.taken_back.note_lookups(model, true) -%}
        {% do _drop_if_other_kind(existing_relation, 'table') %}
        {%- if adapter.worker_files.are_written(model) -%}
            {%- do adapter.worker_files.commit(model) -%}
        {%- else -%}
            {%- call statement('main') -%}
                {{ create_table_as(
                    False,
                    target_relation,
                    _first_rows(_rows_to_write(strategy_name, select_sql)),
                ) }}
            {%- endcall -%}
        {%- endif -%}
        {% do _store_commit_report(target_relation) %}
    {%- elif redefined != 'accept' and adapter.reading.nothing_new(model, graph) -%}
        {%- call noop_statement('main', message='nothing new', code='', rows_affected=0) -%}
            -- no input has changed since the last commit
        {%- endcall -%}
        {% do _store_commit_report(target_relation, changed=false) %}
    {%- else -%}
        {%- set plan = adapter.reading.plan(model) -%}
        {#- changes that the model has read are given again, or the new rows of an input are all of
            them: what it made of them has to go, and is made again of all inputs -#}
        {%- set makes_all = (
            adapter.changes.replaces_all_rows(model, plan, strategy_name, select_sql)
        ) -%}
        {%- do adapter.taken_back.note_lookups(model, makes_all) -%}
        {%- if makes_all -%}
            {%- set strategy_macro = _replace_all_rows -%}
            {%- if model['language'] == 'python' -%}
                {%- do adapter.keyed.rebuild(model) -%}
                {%- do adapter.worker_files.give_up(model) -%}
                {%- call statement('main', language='python') -%}
                    {{- compiled_code -}}
                {%- endcall -%}
            {%- else -%}
                {%- set select_sql = (
                    adapter.changes.rendered_as_first(model, context)
                ) -%}
            {%- endif -%}
        {%- endif -%}
        {%- set staged_sql = _rows_to_write(strategy_name, select_sql) -%}
        {%- if strategy_name == 'merge' and (
            (model['language'] == 'sql' and adapter.reading.reads_few(model))
            or adapter.ranges.is_by_chance(staged_sql)
        ) -%}
            {#- a MERGE reads its source twice: to find the files to write, and to write them. Spark
                refuses rows that are others each time -#}
            {%- set staged_sql = 'select * from ' ~ adapter.ranges.materialize_once(
                model, 'merged_rows', staged_sql
            ) -%}
        {%- endif -%}
        {%- call statement('create_staging_relation') -%}
            {{ create_table_as(True, staging_relation, staged_sql) }}
        {%- endcall -%}
        {# the staged columns; none under on_schema_change='ignore', where both are the same #}
        {%- set staged_columns = process_schema_changes(
            on_schema_change, staging_relation, existing_relation
        ) -%}
        {%- set target_columns = adapter.get_columns_in_relation(target_relation) -%}
        {%- if on_schema_change != 'fail' -%}
            {#- else other types are refused by now -#}
            {%- set given_columns = (
                staged_columns or adapter.get_columns_in_relation(staging_relation)
            ) -%}
            {%- if on_schema_change == 'ignore' -%}
                {%- do _check_lost_columns(given_columns, target_relation, target_columns) -%}
            {%- endif -%}
            {%- do _check_kept_values(given_columns, target_relation, target_columns) -%}
        {%- endif -%}
        {%- if adapter.worker_files.are_written(model) -%}
            {%- do adapter.worker_files.commit(model) -%}
        {%- else -%}
            {%- call statement('main') -%}
                {{ strategy_macro({
                    'target_relation': target_relation,
                    'temp_relation': staging_relation,
                    'unique_key': config.get('unique_key'),
                    'dest_columns': staged_columns or target_columns,
                    'target_columns': target_columns,
                    'plan': plan,
                    'incremental_predicates': config.get('predicates')
                        or config.get('incremental_predicates'),
                }) }}
            {%- endcall -%}
        {%- endif -%}
        {% do _store_commit_report(target_relation) %}
    {%- endif -%}

    {# grants and docs #}
    {% do apply_grants(
        target_relation, grant_config, should_revoke(existing_relation, full_refresh)
    ) %}
    {% do persist_docs(target_relation, model) %}

    {# hooks #}
    {{ _run_hooks(post_hooks, is_before=false) }}

    {{ return({'relations': [target_relation]}) }}

{% endmaterialization %}

{# The macro get_incremental_<name>_sql, the project's before the adapter's, as in dbt-core. #}
{% macro _incremental_strategy(strategy_name) %}
    {% set macro_name = 'get_incremental_' ~ strategy_name | replace('+', '_') ~ '_sql' %}
    {% set own = {
        'append': _insert_new_rows,
        'append_or_merge': _insert_or_merge_rows,
        'merge': _merge_rows,
        'insert_overwrite': _overwrite_partitions,
        'microbatch': _replace_batch,
    } %}
    {% if strategy_name in own %}
        {% do return(own[strategy_name]) %}
    {% elif strategy_name != 'delete+insert' and macro_name in context %}
        {% do return(context[macro_name]) %}
    {% endif %}
    {% do exceptions.raise_compiler_error(
        "incremental_strategy of " ~ model['name'] ~ " must be append, append_or_merge, merge, "
        ~ "insert_overwrite, microbatch or the name of a macro get_incremental_<name>_sql, got '" ~
        strategy_name ~ "'. Example: incremental_strategy='append'"
    ) %}
{% endmacro %}

{# Let the workers of a Python model write its files, where its commit but adds rows. #}
{% macro _allow_worker_files(strategy_name, existing_relation, is_rebuild) %}
    {%- if (
        strategy_name in ('append', 'append_or_merge')
        and not config.get('contract').enforced
        and not config.get('sort_by')
        and (existing_relation is none or existing_relation.type == 'table')
    ) -%}
        {%- do adapter.worker_files.allow(
            model,
            is_rebuild,
            _properties_of_table(_open_files()),
            (model.description or none) if config.persist_relation_docs() else none,
        ) -%}
    {%- endif -%}
{% endmacro %}

{# The rows of a model's query as they are written: with its window's day, of its batch, looked at. #}
{% macro _rows_to_write(strategy_name, select_sql) %}
    {%- if strategy_name == 'replace_windows' -%}
        {%- set select_sql = _with_window_date(select_sql) -%}
    {%- endif -%}
    {%- do return(
        _unique_rows(strategy_name, _with_constraints(_rows_of_batch(select_sql)))
    ) -%}
{% endmacro %}

{# The rows of windows with the day in which their window begins, which a query may leave out. #}
{% macro _with_window_date(select_sql) %}
    {%- set day = adapter.windows.window_date(model, get_columns_in_query(select_sql)) -%}
    {%- if day is none -%}
        {%- do return(select_sql) -%}
    {%- endif -%}
    {%- set dated_rows -%}
        select
            *,
            {{ day }} as window_date
        from (
            {{ select_sql }}
        ) as rows_of_windows
    {%- endset -%}
    {%- do return(dated_rows) -%}
{% endmacro %}

{% macro _insert_new_rows(arg_dict) %}
    {%- set columns = arg_dict['dest_columns'] | map(attribute='quoted') | join(', ') -%}
    insert into {{ arg_dict['target_relation'] }} ({{ columns }})
    select {{ columns }} from {{ arg_dict['temp_relation'] }}
{% endmacro %}

{% macro _replace_all_rows(arg_dict) %}
    insert into {{ arg_dict['target_relation'] }}
    replace where true
    {{ staged_rows(arg_dict) }}
{% endmacro %}

{# The staged rows with the target's columns. `replace where` takes no column list, so a column that
   the model has lost is written as null. #}
{% macro staged_rows(arg_dict) %}
    {%- set staged = arg_dict['dest_columns'] | map(attribute='name') | map('lower') | list -%}
    select
        {%- for column in arg_dict['target_columns'] %}
        {{ 'null as ' if column.name | lower not in staged }}{{ column.quoted }}
        {{- ',' if not loop.last }}
        {%- endfor %}
    from {{ arg_dict['temp_relation'] }}
{%- endmacro %}

{# Adds the rows, unless the Python model asked by dbt.merge_rows(..) for more. #}
{% macro _insert_or_merge_rows(arg_dict) %}
    {%- set merged = arg_dict['plan'].python.merged -%}
    {%- if merged -%}
        {{- _merge_rows(
            dict(
                arg_dict,
                unique_key=merged.by,
                incremental_predicates=merged.within,
                gone_when=merged.gone_when,
            )
        ) -}}
    {%- else -%}
        {{- _insert_new_rows(arg_dict) -}}
    {%- endif -%}
{% endmacro %}

{#
    A batch's rows take the place of all that the table has of its time, in one commit: where a
    batch has fewer rows than before, or none, the others go.
#}
{% macro _replace_batch(arg_dict) %}
    insert into {{ arg_dict['target_relation'] }}
    replace where {{ adapter.batches.batch_condition(model, arg_dict['target_columns']) }}
    {{ sorted_by_config(staged_rows(arg_dict)) }}
{% endmacro %}

{#
    The rows of a microbatch model's query; one that lies outside of the batch, or has no time,
    fails: another batch would add it again. Of any other model the query as it is.
#}
{% macro _rows_of_batch(select_sql) %}
    {%- if config.get('incremental_strategy') != 'microbatch' or not model.batch -%}
        {%- do return(select_sql) -%}
    {%- endif -%}
    {%- set view = make_temp_relation(this, '__dbt_batch') -%}
    {%- call statement('create_batch_relation') -%}
        {{ create_temporary_view(view, select_sql) }}
    {%- endcall -%}
    {%- set condition = (
        adapter.batches.batch_condition(model, adapter.get_columns_in_relation(view))
    ) -%}
    {%- set rows_of_batch -%}
        select * from {{ view }}
        where if({{ condition }}, true, raise_error(
            {{- _sql_text(
                model.name ~ ": its batch has a row whose " ~ config.get('event_time')
                ~ " lies outside of the batch or is null; an input that isn't cut needs its own "
                ~ "event_time in its config, or the model a condition"
            ) -}}
        ))
    {%- endset -%}
    {%- do return(rows_of_batch) -%}
{% endmacro %}

{% macro _overwrite_partitions(arg_dict) %}
    {%- set columns = arg_dict['dest_columns'] | map(attribute='quoted') | join(', ') -%}
    insert overwrite {{ arg_dict['target_relation'] }} ({{ columns }})
    select {{ columns }} from {{ arg_dict['temp_relation'] }}
{% endmacro %}

{# Columns are listed: `set *` fails as soon as the source loses one. Keys compare with <=>. Rows of
   the source that `gone_when` is true for delete what they match, and are not inserted. #}
{% macro _merge_rows(arg_dict) %}
    {%- set held = arg_dict['target_columns'] | map(attribute='name') | list -%}
    {%- set keys = (
        adapter.declarations.key_columns(model.name, arg_dict['unique_key'], held)
    ) -%}
    {%- set names = arg_dict['dest_columns'] | map(attribute='quoted') | list -%}
    {%- do _warn_of_rows_left_out(arg_dict, keys) -%}
    {%- set update_columns = adapter.declarations.updated_columns(
        model.name,
        config.get('merge_update_columns'),
        config.get('merge_exclude_columns'),
        arg_dict['dest_columns'] | map(attribute='name') | list,
    ) -%}
    {%- set on -%}
        {%- for key in keys %}
        {{ 'and ' if not loop.first }}dbt_internal_source.{{ key }} <=> dbt_internal_dest.{{ key }}
        {%- endfor %}
        {%- for predicate in arg_dict['incremental_predicates'] or [] %}
        and {{ predicate }}
        {%- endfor %}
    {%- endset -%}
    {%- do _check_merged_rows(arg_dict, on, update_columns) -%}
    merge into {{ arg_dict['target_relation'] }} as dbt_internal_dest
    using {{ arg_dict['temp_relation'] }} as dbt_internal_source
    on
        {{- on }}
    {%- if arg_dict.get('gone_when') %}
    when matched and {{ arg_dict['gone_when'] }} then delete
    {%- endif %}
    {%- if update_columns %}
    when matched then update set
        {%- for name in update_columns %}
        {{ name }} = dbt_internal_source.{{ name }}{{ ',' if not loop.last }}
        {%- endfor %}
    {%- endif %}
    when not matched
        {{- ' and not coalesce(' ~ arg_dict['gone_when'] ~ ', false)' if arg_dict.get('gone_when') }} then insert ({{ names | join(', ') }})
    values (
        {%- for name in names %}
        dbt_internal_source.{{ name }}{{ ',' if not loop.last }}
        {%- endfor %}
    )
{% endmacro %}
