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
