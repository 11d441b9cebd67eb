{#
    Run the statements of a model's `sql_header` in its session, behind the hooks before it. The
    session is as it was once the model is built.
#}
{% macro _run_sql_header() -%}
    {%- set header = config.get('sql_header') -%}
    {%- if header -%}
        {%- for statement in adapter.declarations.header_statements(header, model) -%}
            {%- do run_query(statement) -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro %}

{# Without the header, which has run: Spark takes one statement at a time. #}
{% macro sparksession__get_empty_subquery_sql(select_sql, select_sql_header=none) -%}
    select * from (
        {{ select_sql }}
    ) as __dbt_sbq
    where false
    limit 0
{%- endmacro %}

{# As dbt's own; of the header its statements run first, and what is no statement goes before. #}
{% macro get_show_sql(compiled_code, sql_header, limit) -%}
    {%- if sql_header is not none -%}
        {%- set split = adapter.split_statements(sql_header) -%}
        {%- for statement in split[0] -%}
            {%- do run_query(statement) -%}
        {%- endfor -%}
        {{ split[1] }}
    {%- endif %}
    {{ get_limit_subquery_sql(compiled_code, limit) }}
{%- endmacro %}
