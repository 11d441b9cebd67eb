{#
    Rows of a relation that lie in touched blocks, or all rows. Use it as the body of a CTE.

    blocks: what touched_blocks returns.
    columns: those to give; SQL text of each.
#}
{% macro rows_of_blocks(relation, columns, blocks) -%}
    select
        {{ columns | join(',\n        ') }}
    from (select * from {{ pinned(relation) }} where {{ blocks.near }}) as held
    {%- if not blocks.all %}
    left semi join {{ blocks.rows }} as touched
        on {{ _is_of_block('held', 'touched') }}
    {%- endif %}
{%- endmacro %}
