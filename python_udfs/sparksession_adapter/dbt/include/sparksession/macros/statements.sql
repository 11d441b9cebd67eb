{# Statements that differ from dbt-spark's on Iceberg tables in one in-process session. #}

{% macro sparksession__create_table_as(temporary, relation, compiled_code, language='sql') -%}
    {%- if temporary -%}
        {{ create_temporary_view(relation, compiled_code) }}
    {%- else -%}
        create or replace table {{ relation }}
        {%- if config.get('contract').enforced %}
            {{- get_assert_columns_equivalent(compiled_code) }}
            {%- set compiled_code = get_select_subquery(compiled_code) %}
        {%- endif %}
        using iceberg
        {{ partition_cols(label='partitioned by') }}
        {{ _table_properties(_open_files()) }}
        {{ _relation_comment() }}
        as
        {{ sorted_by_config(compiled_code) }}
    {%- endif -%}
{%- endmacro %}

{# As dbt-spark's; a name that needs backticks gets them. #}
{% macro sparksession__partition_cols(label, required=false) -%}
    {%- set by = config.get('partition_by') -%}
    {%- if by -%}
        {{ label }} ({{ adapter.partition_texts(by) | join(', ') }})
    {%- endif -%}
{%- endmacro %}

{#
    The query's rows in the order in which they should lie in the files: by partition, then by
    config `sort_by`. A file then holds a narrow range of the first column, so that a read of one
    value opens few files. Without that config as the query gives them.
#}
{% macro sorted_by_config(query) -%}
    {%- set sort_by = config.get('sort_by') -%}
    {%- if not sort_by -%}
        {{- query -}}
    {%- else -%}
        {%- set partition_by = config.get('partition_by') or [] -%}
        {%- set columns = adapter.partition_values(partition_by) -%}
        {%- set then_by = [sort_by] if sort_by is string else sort_by -%}
        select * from (
        {{ query }}
        ) order by {{ (columns + then_by) | join(', ') }}
    {%- endif -%}
{%- endmacro %}

{#
    Properties by which a task holds the file of one partition open at a time. Iceberg's default is
    a file of each partition, whose buffers last until the task ends: a first load of many days
    took gigabytes.

    Without `sort_by` Iceberg brings the rows of a partition together and sorts them by it. With
    `sort_by` the query's own order does, and no rows need to be sent around a second time. Iceberg
    doesn't know that order again where a partition is a transform, nor is there any where a
    strategy adds rows as they come: there its default stays.
#}
{% macro _open_files() -%}
    {%- set by = config.get('partition_by') or [] -%}
    {%- set by = [by] if by is string else by -%}
    {%- set closes = {'write.spark.fanout.enabled': 'false'} -%}
    {%- if not by -%}
        {%- do return({}) -%}
    {%- elif not config.get('sort_by') -%}
        {%- do return(closes) -%}
    {%- elif (
        '(' not in by | join(' ')
        and (
            config.get('materialized') == 'table'
            or config.get('incremental_strategy')
            in ('replace_partitions', 'replace_windows', 'microbatch')
        )
    ) -%}
        {%- do return(dict(closes, **{'write.distribution-mode': 'none'})) -%}
    {%- endif -%}
    {%- do return({}) -%}
{%- endmacro %}

{% macro sparksession__create_temporary_view(relation, compiled_code) -%}
    create or replace temporary view {{ adapter.quote(relation.identifier) }} as
    {{ compiled_code }}
{%- endmacro %}

{% macro sparksession__create_view_as(relation, sql) -%}
    create or replace view {{ relation }}
    {%- if config.persist_column_docs() %}
    ({{ get_persist_docs_column_list(model.columns, get_columns_in_query(sql)) }})
    {%- endif %}
    {{ _relation_comment() }}
    {%- set mark = adapter.standing_views.mark(model, sql) -%}
    {%- if mark %}
    tblproperties ('dbt.view_mark' = '{{ mark }}')
    {%- endif -%}
    {%- if config.get('contract').enforced %}
        {{- get_assert_columns_equivalent(sql) }}
    {%- endif %}
    as
    {{ sql }}
{%- endmacro %}

{# Make a view, unless it is there and would be what it is. #}
{% macro _make_view(relation, sql, name='main') -%}
    {%- if not should_full_refresh() and adapter.standing_views.stands(relation, model, sql) -%}
        {%- do store_raw_result(name, message='OK', code='', rows_affected=none) -%}
    {%- else -%}
        {%- call statement(name) -%}
            {{ get_create_view_as_sql(relation, sql) }}
        {%- endcall -%}
    {%- endif -%}
{%- endmacro %}

{#
    As dbt's own, which plans the query twice and the declared columns too: here once, where it gives
    the names and types of the contract.
#}
{% macro sparksession__get_assert_columns_equivalent(sql) -%}
    {%- do _check_columns(get_column_schema_from_query(sql), sql) -%}
{%- endmacro %}

{# Iceberg table properties: the defaults overlaid by the model's own. #}
{% macro _properties_of_table(defaults={}) -%}
    {%- set properties = {
        'format-version': '2',
        'write.summary.partition-limit': '5000',
        'write.metadata.delete-after-commit.enabled': 'true',
        'write.metadata.previous-versions-max': '20',
    } -%}
    {%- do properties.update(defaults) -%}
    {%- do properties.update(config.get('tblproperties') or {}) -%}
    {%- do return(properties) -%}
{%- endmacro %}

{% macro _table_properties(defaults={}) -%}
    tblproperties (
    {%- for key, value in _properties_of_table(defaults).items() %}
        {{ _sql_text(key) }} = {{ _sql_text(value) }}{{ ',' if not loop.last }}
    {%- endfor %}
    )
{%- endmacro %}

{% macro _relation_comment() -%}
    {%- if config.persist_relation_docs() and model.description -%}
        comment {{ _sql_text(model.description) }}
    {%- endif -%}
{%- endmacro %}

{# Any value as a SQL string literal that reads back as it is. #}
{% macro _sql_text(value) -%}
    '{{ value | string | replace("\\", "\\\\") | replace("'", "\\'") }}'
{%- endmacro %}

{% macro sparksession__get_columns_in_relation(relation) -%}
    {{ return(adapter.get_columns_in_relation(relation)) }}
{%- endmacro %}

{# A seed's file may have dots in its name, a temporary view may not. #}
{% macro sparksession__make_temp_relation(base_relation, suffix='__dbt_tmp') -%}
    {% do return(_staging_view(base_relation.identifier | replace('.', '_') ~ suffix)) %}
{%- endmacro %}

{# A temporary view: named without a schema, seen by this thread alone, gone with the node. #}
{% macro _staging_view(name) -%}
    {% do return(api.Relation.create(identifier=name, type='view')
        .include(database=false, schema=false)) %}
{%- endmacro %}

{% macro sparksession__drop_relation(relation) -%}
    {% call statement('drop_relation', auto_begin=False) -%}
        {%- if relation.schema -%}
            drop {{ relation.type }} if exists {{ relation }}
        {%- else -%}
            drop view if exists {{ adapter.quote(relation.identifier) }}
        {%- endif -%}
    {%- endcall %}
{%- endmacro %}

{#
    Comments of columns, for persist_docs; those that are there already are left, as each statement
    is a commit of the table's metadata. dbt-spark does it for a config file_format alone.
#}
{% macro sparksession__alter_column_comment(relation, column_dict) %}
    {%- set comments = adapter.column_comments(relation) -%}
    {% for name, column in column_dict.items() if column.description != comments.get(name, '') %}
        {% call statement() %}
            alter table {{ relation.name_only }} alter column {{ adapter.quote(name) }}
            comment {{ _sql_text(column.description) }}
        {% endcall %}
    {% endfor %}
{% endmacro %}

{# Spark has neither users nor rights of its own: what a model asks for would not be there. #}
{% macro sparksession__apply_grants(relation, grant_config, should_revoke=true) %}
    {% if grant_config %}
        {% do exceptions.raise_compiler_error(
            model.name ~ ': its config has grants (' ~ grant_config | join(', ') ~ '), and Spark has '
            ~ 'no users that could be given rights; take them out of the config, and let the catalog '
            ~ 'or the storage decide who reads.'
        ) %}
    {% endif %}
{% endmacro %}

{% macro sparksession__alter_column_type(relation, column_name, new_column_type) -%}
    {% call statement('alter_column_type') %}
        alter table {{ relation.name_only }} alter column {{ adapter.quote(column_name) }}
        type {{ new_column_type }}
    {% endcall %}
{% endmacro %}

{# dbt-spark can't drop a column; Iceberg can. #}
{% macro sparksession__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
    {% if remove_columns %}
        {% call statement() %}
            alter table {{ relation.name_only }} drop columns (
                {{ remove_columns | map(attribute='quoted') | join(', ') }}
            )
        {% endcall %}
    {% endif %}
    {% if add_columns %}
        {% call statement() %}
            alter table {{ relation.name_only }} add columns (
                {% for column in add_columns -%}
                    {{ column.quoted }} {{ column.data_type }}{{ ', ' if not loop.last }}
                {%- endfor %}
            )
        {% endcall %}
    {% endif %}
{% endmacro %}

{#
    As dbt's own, but on_schema_change 'fail' doesn't advise to take a change by half: the rows that
    are there would never have what is new. And 'sync_all_columns' refuses a type that the table
    can't take before it changes other columns.
#}
{% macro sparksession__process_schema_changes(on_schema_change, source_relation, target_relation) %}
    {%- set syncs = on_schema_change == 'sync_all_columns' -%}
    {%- if syncs -%}
        {%- do _check_widened_types(source_relation, target_relation) -%}
    {%- endif -%}
    {%- if (
        config.get('partition_by')
        and (
            syncs
            or (
                on_schema_change == 'append_new_columns'
                and config.get('incremental_strategy') == 'insert_overwrite'
            )
        )
    ) -%}
        {%- do _check_lost_partitions(source_relation, target_relation) -%}
    {%- endif -%}
    {%- if on_schema_change != 'fail' -%}
        {%- do return(
            default__process_schema_changes(on_schema_change, source_relation, target_relation)
        ) -%}
    {%- endif -%}
    {%- set changes = check_for_schema_changes(source_relation, target_relation) -%}
    {%- if changes.schema_changed -%}
        {%- set problems = [] -%}
        {%- for column in changes.source_not_in_target -%}
            {%- do problems.append('column ' ~ column.name ~ ' is new') -%}
        {%- endfor -%}
        {%- for column in changes.target_not_in_source -%}
            {%- do problems.append('column ' ~ column.name ~ ' is gone') -%}
        {%- endfor -%}
        {%- set stored = {} -%}
        {%- for column in changes.target_columns -%}
            {%- do stored.update({column.name: column.data_type}) -%}
        {%- endfor -%}
        {%- for one in changes.new_target_types -%}
            {%- do problems.append(
                'column ' ~ one.column_name ~ ' was ' ~ stored[one.column_name] ~ ', is '
                ~ one.new_type
            ) -%}
        {%- endfor -%}
        {%- if config.get('full_refresh') is false -%}
            {%- set advice = (
                'its config has full_refresh: false, so --full-refresh keeps its rows: give the '
                ~ 'table these columns, or take them from it, by `alter table`; or set '
                ~ 'full_refresh=true for a run, which makes all of its rows again.'
            ) -%}
        {%- else -%}
            {%- set advice = (
                'run it with --full-refresh, so that all of its rows have them'
                ~ (', and raise its schema_version' if config.get('meta', {}).get('source')) ~ '.'
            ) -%}
        {%- endif -%}
        {%- do exceptions.raise_compiler_error(
            model.name ~ ': its rows have other columns than its table ' ~ target_relation ~ ' ('
            ~ problems | join('; ') ~ '); ' ~ advice
        ) -%}
    {%- endif -%}
    {%- do return(changes.source_columns) -%}
{% endmacro %}

{#
    Refuses rows without a column that the table is partitioned by. Of a null in its place they
    would all take the partition of null, beside the rows that they were; nor does Iceberg drop the
    column.
#}
{% macro _check_lost_partitions(source_relation, target_relation) %}
    {%- set lost = diff_columns(
        adapter.get_columns_in_relation(target_relation),
        adapter.get_columns_in_relation(source_relation)
    ) | map(attribute='name') | map('lower') | list -%}
    {%- set missing = adapter.partition_columns(config.get('partition_by')) | select('in', lost) -%}
    {%- set missing = missing | unique | join(', ') -%}
    {%- if missing -%}
        {%- do exceptions.raise_compiler_error(
            model.name ~ ': its rows lack columns that its table ' ~ target_relation
            ~ ' is partitioned by (' ~ missing ~ '); give them again, or name others in '
            ~ 'partition_by and run it with --full-refresh.'
        ) -%}
    {%- endif -%}
{% endmacro %}

{#
    How columns of rows, by names in any case, are of types that the table's columns can't be made
    (by='widening'), or would hold as other values (by='values'), as texts.
#}
{% macro _retyped_columns(staged_columns, target_columns, by) %}
    {%- set given, found = {}, [] -%}
    {%- for column in staged_columns -%}
        {%- do given.update({column.name | lower: column}) -%}
    {%- endfor -%}
    {%- for column in target_columns if column.name | lower in given -%}
        {%- set new = given[column.name | lower] -%}
        {%- if (column.alters(new) if by == 'values' else not column.widens_to(new)) -%}
            {%- do found.append(
                'column ' ~ column.name ~ ' was ' ~ column.data_type ~ ', is ' ~ new.data_type
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(found) -%}
{% endmacro %}

{# Refuses rows with a column of a type that Iceberg can't make the table's column of. #}
{% macro _check_widened_types(source_relation, target_relation) %}
    {%- set problems = _retyped_columns(
        adapter.get_columns_in_relation(source_relation),
        adapter.get_columns_in_relation(target_relation),
        by='widening'
    ) -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error(
            model.name ~ ': its table ' ~ target_relation ~ ' can only take wider types of numbers ('
            ~ problems | join('; ') ~ '); run it with --full-refresh, or cast them in the model to '
            ~ 'what they were.'
        ) -%}
    {%- endif -%}
{% endmacro %}

{#
    As dbt's own, which compares names letter by letter: under on_schema_change a column that the
    query writes in another case was dropped from the table with its values, and added empty.
#}
{% macro diff_columns(source_columns, target_columns) %}
    {%- set known = target_columns | map(attribute='name') | map('lower') | list -%}
    {%- set missing = [] -%}
    {%- for column in source_columns if column.name | lower not in known -%}
        {%- do missing.append(column) -%}
    {%- endfor -%}
    {%- do return(missing) -%}
{% endmacro %}

{# As dbt's own, of names in any case. #}
{% macro diff_column_data_types(source_columns, target_columns) %}
    {%- set known, changed = {}, [] -%}
    {%- for column in target_columns -%}
        {%- do known.update({column.name | lower: column}) -%}
    {%- endfor -%}
    {%- for column in source_columns if column.name | lower in known -%}
        {%- set stored = known[column.name | lower] -%}
        {%- if column.data_type != stored.data_type -%}
            {%- do changed.append({'column_name': stored.name, 'new_type': column.data_type}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(changed) -%}
{% endmacro %}

{# Refuses rows that lack columns of the table, where on_schema_change has no place for that. #}
{% macro _check_lost_columns(staged_columns, target_relation, target_columns) %}
    {%- set lost = diff_columns(target_columns, staged_columns) | map(attribute='name') | list -%}
    {%- if lost -%}
        {%- do exceptions.raise_compiler_error(
            model.name ~ ': its rows lack columns that its table ' ~ target_relation ~ ' has ('
            ~ lost | join(', ') ~ '); run it with --full-refresh, or set on_schema_change.'
        ) -%}
    {%- endif -%}
{% endmacro %}

{#
    Refuses rows whose values the table's columns would round, cut or hold in other fields: Spark
    does so without a word.
#}
{% macro _check_kept_values(staged_columns, target_relation, target_columns) %}
    {%- set problems = _retyped_columns(staged_columns, target_columns, by='values') -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error(
            model.name ~ ': its table ' ~ target_relation ~ ' would round or cut the values of its '
            ~ 'rows, or hold them in other fields (' ~ problems | join('; ') ~ '); '
            ~ ('cast them in its query to what they were, or take the snapshot under another name.'
                if model.resource_type == 'snapshot' else
                'run it with --full-refresh, or cast them in the model to what they were.')
        ) -%}
    {%- endif -%}
{% endmacro %}

{# Only a change between view and table drops; everything else is replaced in place. #}
{% macro _drop_if_other_kind(existing_relation, kind) %}
    {% if existing_relation is not none and existing_relation.type != kind %}
        {% do adapter.drop_relation(existing_relation) %}
    {% endif %}
{% endmacro %}

{# dbt's line for the node: rows added and removed, from the commits themselves. #}
{% macro _store_commit_report(relation, changed=true) %}
    {% set report = adapter.commits.commit_report(model, relation, changed) %}
    {% do store_raw_result(
        'main',
        message=report.message,
        code=(report.rows_read if report.rows_read is not none else '') | string,
        rows_affected=report.rows_added,
    ) %}
{% endmacro %}

{#
    The texts of a group as a single text, in the order asked for; `limit_num` takes that many
    of them. JSON keeps the texts apart till then, whatever characters they have.
#}
{% macro sparksession__listagg(measure, delimiter_text, order_by_clause, limit_num) -%}
    {%- set ordered = ' within group (' ~ order_by_clause ~ ')' if order_by_clause else '' -%}
    {%- if limit_num -%}
        array_join(
            slice(
                flatten(
                    from_json(
                        concat(
                            '[',
                            listagg(
                                case when {{ measure }} is not null
                                    then to_json(array(cast({{ measure }} as string)))
                                end,
                                ','
                            ){{ ordered }},
                            ']'
                        ),
                        'array<array<string>>'
                    )
                ),
                1,
                {{ limit_num }}
            ),
            {{ delimiter_text }}
        )
    {%- else -%}
        listagg({{ measure }}, {{ delimiter_text }}){{ ordered }}
    {%- endif -%}
{%- endmacro %}
