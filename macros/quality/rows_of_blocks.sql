{#
    Rows of relations that lie in touched blocks, or all their rows. Use it as the body of a CTE.

    relations: ods_binlog, or typed models.
    columns: names of those to give.
    blocks: what touched_blocks returns.
#}
{% macro rows_of_blocks(relations, columns, blocks) -%}
    select held.*
    from (
        {%- for relation in relations %}
        select
            {{ columns | join(',\n            ') }}
        from {{ pinned(relation) }}
        where {{ blocks.near }}
        {% if not loop.last -%}
        union all
        {%- endif %}
        {%- endfor %}
    ) as held
    {%- if not blocks.all %}
    left semi join {{ blocks.rows }} as touched
        on {{ _is_of_block('held', 'touched') }}
    {%- endif %}
{%- endmacro %}
