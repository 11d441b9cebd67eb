{#
    Condition on batch_id: the var `batches` names it, so the typed tables are made of it too.
#}
{% macro is_read_batch() -%}
    batch_id in (
    {%- for batch in var('batches') -%}
        {{ _sql_text(batch) }}{{ ', ' if not loop.last }}
    {%- endfor -%}
    )
{%- endmacro %}
