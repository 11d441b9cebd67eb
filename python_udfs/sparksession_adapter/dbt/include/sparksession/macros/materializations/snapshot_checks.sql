{# What a snapshot refuses, as dbt would make versions that are wrong of it. #}

{#
    Refuses what no run could make right versions of: rows by their keys and times, and settings
    that were others when the table's versions were made.

    Args:
        strategy: dbt's, of this snapshot.
        held: the snapshot's table; none where this run makes it.
#}
{% macro _check_snapshot(strategy, held) %}
    {%- set names = (
        config.get('snapshot_table_column_names') or get_snapshot_table_column_names()
    ) -%}
    {%- if config.get('strategy') == 'check' -%}
        {%- do _check_compared_columns(config.get('check_cols')) -%}
    {%- endif -%}
    {%- if held is not none -%}
        {%- do adapter.valid_snapshot_target(held, names) -%}
        {%- do _check_hard_deletes(strategy.hard_deletes, held, names.dbt_is_deleted) -%}
    {%- endif -%}
    {%- call statement('check_keys', fetch_result=true) -%}
        {{ _broken_keys(strategy, held, names) }}
    {%- endcall -%}
    {%- for row in load_result('check_keys').table.rows -%}
        {%- do exceptions.raise_compiler_error(model.name ~ ': ' ~ {
            'several': 'its query gives several rows of one unique_key (' ~ row[1] ~ '), and a key '
                ~ 'has one open version; keep one of them, or name the columns in which they '
                ~ 'differ in unique_key.',
            'null': 'its query gives a row whose unique_key is null (' ~ row[1] ~ '), and each run '
                ~ 'would take it for a new row; leave such rows out, or give them a key.',
            'time': 'its query gives a row whose ' ~ config.get('updated_at') ~ ' is null ('
                ~ row[1] ~ '), by which a version begins; leave such rows out, or give them a '
                ~ 'time.',
            'open': 'its table ' ~ this ~ ' has several open versions of one unique_key ('
                ~ row[1] ~ '), and a key has one; let unique_key be what it was, or delete the '
                ~ 'versions that are wrong.',
            'end': 'versions of its table ' ~ this ~ ' are open by another ' ~ names.dbt_valid_to
                ~ ' (' ~ row[1] ~ ') than its dbt_valid_to_current, '
                ~ (config.get('dbt_valid_to_current') or 'null') ~ ', and would stay open for '
                ~ 'ever; let dbt_valid_to_current be what it was, or update these versions.',
            'deleted': 'its table ' ~ this ~ ' has an open version whose ' ~ names.dbt_is_deleted
                ~ ' is null (' ~ row[1] ~ '), of which no deletion would be seen; update it to '
                ~ "'False' where the row was there.",
        }[row[0]]) -%}
    {%- endfor -%}
{% endmacro %}

{# Refuses columns to be compared of which no two values are equal or not: only the second run would
   fail. #}
{% macro _check_compared_columns(check_cols) %}
    {%- set chosen = check_cols | map('lower') | map('replace', '`', '') | list -%}
    {%- for column in get_column_schema_from_query(model['compiled_code']) -%}
        {%- set is_chosen = check_cols == 'all' or column.name | lower in chosen -%}
        {%- if is_chosen and ('map<' in column.dtype or 'variant' in column.dtype) -%}
            {%- do exceptions.raise_compiler_error(
                model.name ~ ': its check_cols compares ' ~ column.name ~ ', whose type is '
                ~ column.dtype ~ ', of which no two can be compared; give its query a column of '
                ~ 'to_json(..) instead, or list other columns in check_cols.'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}

{#
    A key with its problem, if there is any. Of the query: several rows of a key, each of which
    would begin a version; a key that is null or has a part that is, whose version no run finds
    again; a row without the time that its version begins by. Of the table: several open versions
    of a key, as where its unique_key was another; an end that lies ahead and isn't that of open
    versions.
#}
{% macro _broken_keys(strategy, held, names) -%}
    {%- set key = strategy.unique_key -%}
    {%- set parts, fields = [key], ['dbt_unique_key'] -%}
    {%- if key is not string -%}
        {%- set parts, fields = key, _unique_key_aliases()[: key | length] -%}
    {%- endif -%}
    {%- set end = config.get('dbt_valid_to_current') -%}
    {%- set valid_to = names.dbt_valid_to -%}
    {%- set is_open = '(' ~ valid_to ~ ' is null'
        ~ (' or ' ~ valid_to ~ ' = ' ~ end if end) ~ ')' -%}
    {%- set example = [] -%}
    {%- for field in fields -%}
        {%- do example.append(
            _sql_text((', ' if not loop.first else '') ~ parts[loop.index0] ~ ' = ')
            ~ ", coalesce(left(cast(" ~ field ~ " as string), 100), 'null')"
        ) -%}
    {%- endfor -%}
    {%- set has_no_key = fields | join(' is null or ') ~ ' is null' -%}
    select problem, concat({{ example | join(', ') }})
    from (
        select
            {{ fields | join(', ') }},
            case
                when {{ has_no_key }} then 'null'
                when count(*) > 1 then 'several'
                {%- if config.get('updated_at') %}
                when count({{ config.get('updated_at') }}) = 0 then 'time'
                {%- endif %}
            end as problem
        from (select *, {{ unique_key_fields(key) }} from ({{ model['compiled_code'] }}))
        group by {{ fields | join(', ') }}
        {%- if held is not none %}
        union all
        select
            {{ fields | join(', ') }},
            case
                when {{ has_no_key }} then null
                when
                    max({{ valid_to }}) > {{ snapshot_get_time() }}
                    and max({{ valid_to }}) > max({{ names.dbt_valid_from }})
                    {{- ' and max(' ~ valid_to ~ ') != ' ~ end if end }}
                    then 'end'
                when count_if({{ is_open }}) > 1 then 'open'
                {%- if strategy.hard_deletes == 'new_record' %}
                when count_if({{ is_open }} and {{ names.dbt_is_deleted }} is null) > 0
                    then 'deleted'
                {%- endif %}
            end as problem
        from (select *, {{ unique_key_fields(key) }} from {{ held }})
        group by {{ fields | join(', ') }}
        {%- endif %}
    )
    where problem is not null
    limit 1
{%- endmacro %}

{#
    Refuses hard_deletes that was another when the table was made: by new_record a deleted row has
    an open version, which the others would take for a row that is there.
#}
{% macro _check_hard_deletes(hard_deletes, held, name) %}
    {%- set known = adapter.get_columns_in_relation(held) | map(attribute='name') | map('lower')
        | list -%}
    {%- set is_known = name | lower in known -%}
    {%- if hard_deletes == 'new_record' and not is_known -%}
        {%- do exceptions.raise_compiler_error(
            model.name ~ ': its hard_deletes is new_record, and its table ' ~ held ~ ', which was '
            ~ 'made by another, has no column ' ~ name ~ '; let hard_deletes be what it was, or '
            ~ "add the column to the table, a string that is 'False' in all versions."
        ) -%}
    {%- elif hard_deletes != 'new_record' and is_known and name | lower not in (
        get_columns_in_query(model['compiled_code']) | map('lower') | list
    ) -%}
        {%- do exceptions.raise_compiler_error(
            model.name ~ ': its hard_deletes is ' ~ hard_deletes ~ ', and its table ' ~ held
            ~ ' has open versions of deleted rows (' ~ name ~ '), which would pass for rows that '
            ~ 'are there; let hard_deletes be new_record, or take the snapshot under another name.'
        ) -%}
    {%- endif -%}
{% endmacro %}

{#
    As dbt's own, which compares names letter by letter: a column of check_cols in another case than
    the table's would count as added in each run, and begin a version of each row.
#}
{% macro snapshot_check_all_get_existing_columns(node, target_exists, check_cols_config) -%}
    {%- if check_cols_config == 'all' -%}
        {%- set chosen = '*' -%}
    {%- elif check_cols_config is string or not check_cols_config -%}
        {%- do exceptions.raise_compiler_error(
            node.name ~ ": its check_cols must be 'all' or a list of columns, got '"
            ~ check_cols_config ~ "'."
        ) -%}
    {%- else -%}
        {%- set chosen = check_cols_config | join(', ') -%}
    {%- endif -%}
    {%- if not target_exists -%}
        {%- do return((false, [])) -%}
    {%- endif -%}
    {%- set table = adapter.get_relation(
        database=node.database, schema=node.schema, identifier=node.alias
    ) -%}
    {%- set known = adapter.get_columns_in_relation(table) | map(attribute='name') | map('lower')
        | list -%}
    {%- set checked, added = [], [] -%}
    {%- for name in get_columns_in_query(
        'select ' ~ chosen ~ ' from (\n' ~ node['compiled_code'] ~ '\n) as snapshot_query'
    ) -%}
        {%- do (checked if name | lower in known else added).append(adapter.quote(name)) -%}
    {%- endfor -%}
    {%- do return((added | length > 0, checked)) -%}
{%- endmacro %}

{#
    As dbt's own, but a version that began when a run saw it, as of a row that was gone, goes by the
    time that its row had: by its own begin a later change of the row would count as known. So would
    it by the time of the run that another strategy noted as dbt_updated_at.
#}
{% macro snapshot_timestamp_strategy(
    node, snapshotted_rel, current_rel, model_config, target_exists
) -%}
    {%- set names = (
        config.get('snapshot_table_column_names') or get_snapshot_table_column_names()
    ) -%}
    {%- set key, time = config.get('unique_key'), config.get('updated_at') -%}
    {%- set hard_deletes = adapter.get_hard_deletes_behavior(config) -%}
    {%- set known = [names.dbt_valid_from, names.dbt_updated_at] -%}
    {%- if target_exists -%}
        {%- set table = adapter.get_relation(
            database=node.database, schema=node.schema, identifier=node.alias
        ) -%}
        {%- set held = adapter.get_columns_in_relation(table) | map(attribute='name') -%}
        {%- if time | lower in held | map('lower') | list -%}
            {%- do known.append(time) -%}
        {%- endif -%}
    {%- endif -%}
    {%- set of_version = snapshotted_rel ~ '.' -%}
    {%- do return({
        'unique_key': key,
        'updated_at': time,
        'row_changed': '(least(' ~ of_version ~ known | join(', ' ~ of_version) ~ ') < '
            ~ current_rel ~ '.' ~ time ~ ')',
        'scd_id': snapshot_hash_arguments(api.Relation.scd_args(key, time)),
        'invalidate_hard_deletes': hard_deletes == 'invalidate',
        'hard_deletes': hard_deletes,
    }) -%}
{%- endmacro %}
