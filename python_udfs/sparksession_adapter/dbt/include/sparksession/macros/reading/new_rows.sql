{#
    The rows that the relation got between this model's last commit and the run's pinned snapshot;
    all of it when the model is rebuilt or the relation was rewritten in between. So a reader
    must bear a row that it has seen before. A view must be declared row-wise.
#}
{% macro new_rows(relation) -%}
    {%- if not execute or relation.is_cte -%}
        {%- do adapter.default_reads.check_news_of_cte(
            model, relation, 'new_rows'
        ) if execute -%}
        {%- do return(relation) -%}
    {%- endif -%}
    {%- do return(adapter.reading.new_rows(
        model, relation, is_incremental(), context)
    ) -%}
{%- endmacro %}
