{#
    Keys whose breaks have to be found again. An image lies between the change that left it and the
    change that took it: if in every group of links of one key and one image `left` and `taken` take
    turns, then at any time exactly one image of the key lay there, so each change took what the
    change before it had left. If not, the chain is broken somewhere. Only groups with new links
    can have become wrong; and a key with open breaks that is touched may have been healed.

    changed_links: all links of the partitions with new links. new_links: the new links.
#}
{% macro chain_suspects(chain, changed_links, new_links) -%}
    {%- set keys = adapter.declarations.chain_plan(chain).key_columns -%}
    {%- set names = keys | join(', ') -%}
    {%- set columns = [
        'image_digest',
        'altered_values',
        'is_left',
        'binlog_file_number',
        'binlog_position',
        'row_number',
    ] -%}
    {%- if _checks_all_keys() -%}
        {#- no suspects are selected: the breaks of all keys are computed -#}
        select {{ names }} from {{ new_links }} limit 0
    {%- else -%}
    select {{ names }}
    from (
        select
            {{ names }},
            is_left,
            altered_values,
            -- nothing lies there from the beginning
            coalesce(previous.is_left, image_digest is null) as was_left,
            previous.altered_values as previous_values
        from (
            select
                {{ names }},
                image_digest,
                is_left,
                altered_values,
                lag(struct(is_left, altered_values)) over (
                    partition by {{ names }}, image_digest
                    order by binlog_file_number, binlog_position, row_number, is_left
                ) as previous
            from (
                select
                    {%- for column in keys + columns %}
                    {{ changed_links }}.{{ column }}{{ ',' if not loop.last }}
                    {%- endfor %}
                from {{ changed_links }}
                left semi join {{ new_links }}
                    on
                        {{ _is_same_key(keys, changed_links, new_links) }}
                        and {{ changed_links }}.image_digest
                            <=> {{ new_links }}.image_digest
                group by
                    {%- for column in keys + columns %}
                    {{ changed_links }}.{{ column }}{{ ',' if not loop.last }}
                    {%- endfor %}
                having sum({{ changed_links }}.sign) > 0
            ) as touched_links
        ) as links_with_previous
    ) as turns
    where
        is_left = was_left
        or (
            not is_left
            -- null is no difference here: the column wasn't there
            and exists(
                zip_with(previous_values, altered_values, (left, found) -> left <> found),
                differs -> differs
            )
        )
    -- each key once
    union
    select
        {%- for column in keys %}
        {{ new_links }}.{{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    from {{ new_links }}
    left semi join {{ this }} as open_breaks
        on {{ _is_same_key(keys, new_links, 'open_breaks') }}
    {%- endif -%}
{%- endmacro %}

{# Whether a run checks all keys, not only suspects. Call it after new_rows(..). #}
{% macro _checks_all_keys() -%}
    {%- do return(not is_incremental() or adapter.reading.plan(model).news.reads_whole) -%}
{%- endmacro %}
