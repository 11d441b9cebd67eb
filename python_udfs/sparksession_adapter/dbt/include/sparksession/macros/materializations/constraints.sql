{#
    A model's query that fails where a row breaks a not_null or check constraint of its contract.
    Iceberg keeps no constraints and Spark's `create table .. as` takes none: so the query itself
    looks at each row that is written, and a commit with a wrong row isn't made. dbt warns of
    constraints of other types.
#}
{% macro _with_constraints(sql) -%}
    {%- if not config.get('contract').enforced -%}
        {%- do return(sql) -%}
    {%- endif -%}
    {%- do adapter.render_raw_columns_constraints(raw_columns=model['columns']) -%}
    {%- do adapter.render_raw_model_constraints(raw_constraints=model['constraints']) -%}
    {%- set guards = adapter.constraint_guards(model) -%}
    {%- if not guards -%}
        {%- do return(sql) -%}
    {%- endif -%}
    {#- a missing column is the contract's error, not that of the query with the guards -#}
    {%- do get_assert_columns_equivalent(sql) -%}
    {%- set guarded -%}
        select
            {%- for column in model['columns'].values() %}
            {%- set name = adapter.quote(column.name) %}
            {%- if column.name in guards %}
            case
                {%- for guard in guards[column.name] %}
                when {{ guard.broken_when }} then raise_error({{ _sql_text(guard.problem) }})
                {%- endfor %}
                else {{ name }}
            end as {{ name }}
            {%- else %}
            {{ name }}
            {%- endif %}
            {{- ',' if not loop.last }}
            {%- endfor %}
        from (
            {{ sql }}
        ) as model_subq
    {%- endset -%}
    {%- do return(guarded) -%}
{%- endmacro %}

{#
    Refuses rows that an incremental model holds and that break a constraint which its contract got
    later: no query of new rows sees them.

    Args:
        held: its table, none where this run makes all rows.
#}
{% macro _check_held_rows(held) -%}
    {%- set guards = adapter.constraint_guards(model) if config.get('contract').enforced else {} -%}
    {%- if guards and adapter.held_constraints.are_new(model) and held is not none -%}
        {%- set known = adapter.get_columns_in_relation(held) | map(attribute='name') | map('lower')
            | list -%}
        {%- set rows -%}
            select
                *
                {%- for column in model['columns'].values() if column.name | lower not in known %},
                null as {{ adapter.quote(column.name) }}
                {%- endfor %}
            from {{ held }}
        {%- endset -%}
        {%- for problem in _problems_of(guards, rows) -%}
            {%- do exceptions.raise_compiler_error(
                problem ~ ' that its table holds from before the constraint; correct '
                ~ 'such rows, or run it with --full-refresh.'
            ) -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro %}

{#
    Refuses rows of a merge that updates some columns alone, where what it leaves as it was breaks a
    constraint beside what it updates: the query's own rows are looked at without it.

    Args:
        arg_dict: of the merge.
        on: by what a row of the table is met.
        updated: columns, as the merge names them.
#}
{% macro _check_merged_rows(arg_dict, on, updated) -%}
    {%- set updated = updated | map('replace', '`', '') | map('lower') | list -%}
    {%- set kept = (
        arg_dict['target_columns'] | map(attribute='name') | map('lower') | reject('in', updated)
    ) | list -%}
    {%- set guards = adapter.constraint_guards(model) if config.get('contract').enforced else {} -%}
    {%- if guards and kept -%}
        {%- set rows -%}
            select
                {%- for column in arg_dict['target_columns'] %}
                {%- set side = 'source' if column.name | lower in updated else 'dest' %}
                dbt_internal_{{ side }}.{{ column.quoted }}{{ ',' if not loop.last }}
                {%- endfor %}
            from {{ arg_dict['target_relation'] }} as dbt_internal_dest
            inner join {{ arg_dict['temp_relation'] }} as dbt_internal_source on {{ on }}
        {%- endset -%}
        {%- for problem in _problems_of(guards, rows) -%}
            {%- do exceptions.raise_compiler_error(
                problem ~ ' as the merge would leave it, which updates some of its columns alone '
                ~ '(merge_update_columns, merge_exclude_columns); let it update all columns of the '
                ~ 'constraint, or correct the row.'
            ) -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro %}

{# The problem of a row that breaks one of the guards, without its point; none where no row does. #}
{% macro _problems_of(guards, rows) -%}
    {%- set broken -%}
        select problem
        from (
            select
                case
                    {%- for guard in guards.values() | sum(start=[]) %}
                    when {{ guard.broken_when }} then {{ _sql_text(guard.problem) }}
                    {%- endfor %}
                end as problem
            from (
                {{ rows }}
            ) as guarded_rows
        ) as looked_at
        where problem is not null
        limit 1
    {%- endset -%}
    {%- call statement('broken_rows', fetch_result=true) -%}
        {{ broken }}
    {%- endcall -%}
    {%- set problems = [] -%}
    {%- for row in load_result('broken_rows').table.rows -%}
        {%- do problems.append(row[0] | trim('.')) -%}
    {%- endfor -%}
    {%- do return(problems) -%}
{%- endmacro %}

{% macro _check_columns(columns, sql) -%}
    {%- set given, declared = {}, {} -%}
    {%- for column in columns -%}
        {%- do given.update({column.name | lower: column.dtype | lower | replace(' ', '')}) -%}
    {%- endfor -%}
    {%- for column in model.columns.values() -%}
        {%- set type = column.data_type or '' -%}
        {%- do declared.update({column.name | lower: type | lower | replace(' ', '')}) -%}
    {%- endfor -%}
    {%- if given != declared -%}
        {%- do assert_columns_equivalent(sql) -%}
    {%- endif -%}
{%- endmacro %}
