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
    {%- if (
        strategy_name != 'merge' or not unique_key
        or 'dbt_internal_source' in predicates | join(' ') | lower
    ) -%}
        {%- do return(select_sql) -%}
    {%- endif -%}
    {%- set keys = [unique_key] if unique_key is string else unique_key -%}
    {%- set problem = (
        model.name ~ ': its query gives several rows of one unique_key, such as %, and which of '
        ~ 'them stays would be chance. Keep one of them by an order without ties, or name the '
        ~ 'columns in which they differ in unique_key'
    ) -%}
    {%- set begin, end = problem.split('%') -%}
    {%- set example = [] -%}
    {%- for key in keys -%}
        {%- do example.append(
            _sql_text((', ' if not loop.first else '') ~ key ~ ' = ')
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
