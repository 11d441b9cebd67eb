{#
    The rows of a model of strategy merge; several of one unique_key fail. A MERGE refuses them only
    where the table has the key already: on the first build, and of a new key, all of them would
    stand, and which one stays later would be chance. Of any other model the query as it is, and
    where a predicate names the source: only some rows of the key may meet a row of the table.

    It costs a sort by the key: on the first build and a full refresh of all rows, else of the news.
#}
{% macro _unique_rows(strategy_name, select_sql) %}
    {%- set unique_key = config.get('unique_key') -%}
    {%- set predicates = config.get('predicates') or config.get('incremental_predicates') or [] -%}
    {%- if strategy_name != 'merge' or not unique_key -%}
        {%- do return(select_sql) -%}
    {%- endif -%}
    {%- set keys = adapter.declarations.key_columns(
        model.name, unique_key, get_columns_in_query(select_sql)
    ) -%}
    {%- if 'dbt_internal_source' in predicates | join(' ') | lower -%}
        {%- do return(select_sql) -%}
    {%- endif -%}
    {%- set problem = (
        model.name ~ ': its query gives several rows of one unique_key, such as %, and which of '
        ~ 'them stays would be chance. Keep one of them by an order without ties, or name the '
        ~ 'columns in which they differ in unique_key'
    ) -%}
    {%- set begin, end = problem.split('%') -%}
    {%- set example = [] -%}
    {%- for key in keys -%}
        {%- do example.append(
            _sql_text((', ' if not loop.first else '') ~ (key | replace('`', '')) ~ ' = ')
            ~ ", coalesce(left(cast(" ~ key ~ " as string), 100), 'null')"
        ) -%}
    {%- endfor -%}
    {%- set rows -%}
        select * except (dbt_internal_copy)
        from (
            select
                *,
                row_number() over (
                    partition by {{ keys | join(', ') }} order by {{ keys[0] }}
                ) as dbt_internal_copy
            from (
                {{ select_sql }}
            )
        )
        where if(dbt_internal_copy = 1, true, raise_error(concat(
            {{- _sql_text(begin) }}, {{ example | join(', ') }}, {{ _sql_text(end) -}}
        )))
    {%- endset -%}
    {%- do return(rows) -%}
{% endmacro %}

{#
    Warns where rows that the config's predicates leave out of a merge have a key of the rows that
    are merged: dbt lets the key be there twice. Not of predicates that name the source, which may
    be part of the key. It costs a read of the key, of what the predicates leave out.
#}
{% macro _warn_of_rows_left_out(arg_dict, keys) %}
    {%- set predicates = config.get('predicates') or config.get('incremental_predicates') or [] -%}
    {%- if not predicates or 'dbt_internal_source' in predicates | join(' ') | lower -%}
        {%- do return(none) -%}
    {%- endif -%}
    {%- set left_out -%}
        select 1
        from {{ arg_dict['target_relation'] }} as dbt_internal_dest
        left semi join {{ arg_dict['temp_relation'] }} as dbt_internal_source
            on
                {%- for key in keys %}
                {{ 'and ' if not loop.first -}}
                dbt_internal_source.{{ key }} <=> dbt_internal_dest.{{ key }}
                {%- endfor %}
        where not coalesce(({{ predicates | join(') and (') }}), false)
        limit 1
    {%- endset -%}
    {%- if run_query(left_out).rows -%}
        {%- do exceptions.warn(
            model.name ~ ': rows that its incremental_predicates leave out have a unique_key of its '
            ~ 'new rows, which are there twice from now on; let the predicates hold of each row that '
            ~ 'a new row may take the place of, if that is not meant.'
        ) -%}
    {%- endif -%}
{% endmacro %}
