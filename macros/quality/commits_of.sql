{#
    Query of the commits of tables, one row per commit. It reads metadata only. A commit stands
    unless its table has gone back behind it, or was made again.
#}
{% macro commits_of(tables) -%}
    {% for table in tables -%}
        select
            '{{ table }}' as relation_name,
            '{{ table.identifier }}' as table_name,
            commits.snapshot_id,
            commits.parent_id,
            commits.committed_at,
            commits.operation,
            commits.summary,
            left_behind.snapshot_id is null as is_standing
        from {{ table }}.snapshots as commits
        left join (
            select distinct snapshot_id
            from {{ table }}.history
            where not is_current_ancestor
        ) as left_behind
            on commits.snapshot_id = left_behind.snapshot_id
        {% if not loop.last -%}
            union all
        {% endif -%}
    {% endfor %}
{%- endmacro %}
