{#
    Query of the commits of tables, one row per commit. It reads metadata only.
#}
{% macro commits_of(tables) -%}
    {% for table in tables -%}
        select
            '{{ table }}' as relation_name,
            '{{ table.identifier }}' as table_name,
            snapshot_id,
            parent_id,
            committed_at,
            operation,
            summary
        from {{ table }}.snapshots
        {% if not loop.last -%}
            union all
        {% endif -%}
    {% endfor %}
{%- endmacro %}
