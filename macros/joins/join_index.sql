{#
    An index for joins whose left side has another key than the columns that are joined by:

        left                      the index, by user_id and create_time
        order  user  create_time  user  create_time  order
        1      77    10:00        77    10:00        1
        2      78    11:00        77    12:00        3
        3      77    12:00        78    11:00        2

    For a model that is config(materialized='folded') and selects all of it; while dbt parses it,
    the macro writes its unique_key, the columns of by, then of key. The left side of a join names
    it as `index`: a right row that changed and begins far back finds its left rows here, and the
    join opens their files alone, not those of all left rows since. So `by` has the left columns of
    the join's `on`, in their order, then its time, then those of its condition.

    It keeps each combination that ever was: a left row that has changed since is looked at in vain.

    Cost: the new rows of the relation.
#}
{% macro join_index(relation, key, by) -%}
    {%- if not execute -%}
        {%- do config(adapter.joins.derived_index_config(model, config, key, by)) -%}
    {%- else -%}
    {%- set columns = adapter.joins.record_index(model, relation, key, by) -%}
    select distinct {{ columns | join(', ') }}
    from {{ new_changes(relation, by=key) }}
    {%- endif -%}
{%- endmacro %}

{#
    How the left rows are found of right rows that begin far back, by the index that the left side
    names; none where nothing is looked up in it.
#}
{% macro _lookup_in_index(join, new_right) -%}
    {%- set size = var('join_lookup_bytes', 64 * 1024 * 1024) | int -%}
    {%- do return(adapter.joins.lookup(model, join, new_right, graph, size)) -%}
{%- endmacro %}

{# The keys of the left rows that an index has for right rows. #}
{% macro _keys_in_index(join, lookup, far_right) -%}
    (
        select distinct
            {%- for column in join.left.key %}
            left_row.{{ column }}{{ ',' if not loop.last }}
            {%- endfor %}
        from (
            select {{ join.left.indexed_by | join(', ') }}
            from {{ lookup.index }}
            where {{ adapter.ranges.pruning_condition(
                far_right, join.wanted_left, most=lookup.ranges
            ).condition }}
        ) as left_row
        left semi join {{ far_right }} as right_row
            on {{ join.matches }}
    )
{%- endmacro %}

{# What is near some keys, or near the keys that an index gave. #}
{% macro _or_found(near, found, wanted, lookup) -%}
    {%- set far = adapter.ranges.pruning_condition(found, wanted, most=lookup.ranges) -%}
    {%- do return({
        'condition': '(' ~ near.condition ~ ' or ' ~ far.condition ~ ')',
        'row_count': near.row_count + far.row_count,
    }) -%}
{%- endmacro %}
