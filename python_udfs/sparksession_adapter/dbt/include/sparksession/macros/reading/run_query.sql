{#
    dbt's own `run_query`. A model that is stored may ask of the database what its refs and sources
    give, read as its query reads them; a table named by hand is refused, as it is in the query.
#}
{% macro run_query(sql) -%}
    {%- if execute and model is defined -%}
        {%- do adapter.named_reads.check_asked(model, sql, context) -%}
        {%- do adapter.hook_writes.check_asked(model, sql, context) -%}
    {%- endif -%}
    {%- call statement('run_query_statement', fetch_result=true, auto_begin=false) -%}
        {{ sql }}
    {%- endcall -%}
    {%- do return(load_result('run_query_statement').table) -%}
{% endmacro %}
