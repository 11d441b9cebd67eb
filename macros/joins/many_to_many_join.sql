{#
    Each left row with each right row of its key.

        left    a1  a2                 key A             joined  a1 x, a1 y, a2 x, a2 y
        right   x   y                  key A

    n left and m right rows of a key are n x m pairs. Keys that have more rows on a side than the
    var join_rows_per_key are named in a warning with both counts.

    A row that comes late is joined to all rows of its key in the run that brings it. Cost: see
    repaired_join; a new right row writes a pair for each left row of its key, and reads all right
    rows of that key.
#}
{% macro many_to_many_join(left, right, on, kind='inner', condition=none) -%}
    {{- _joined({
        'form': 'many_to_many_join',
        'left': left,
        'right': right,
        'on': on,
        'kind': kind,
        'condition': condition,
    }) -}}
{%- endmacro %}

{# Names the keys that have more rows than a join should multiply. A version of a dimension is the
   only version of its time, however many its key has; the nearest row is alone, and a left row
   that is kept or dropped makes no pair. #}
{% macro _warn_of_skew(join, left, right) -%}
    {%- set most = var('join_rows_per_key', 1000) -%}
    {%- set multiplies = join.name != 'temporal_join' and not join.asof and not join.is_filter -%}
    {%- if adapter.ranges.writes(flags) and multiplies and not join.left.relation.is_cte -%}
        {%- set skewed_sql -%}
            select
                to_json(struct(
                    {%- for column in join.on -%}
                        left_keys.{{ column }}{{ ', ' if not loop.last }}
                    {%- endfor -%}
                )) as join_key,
                left_keys.left_rows,
                right_keys.right_rows
            from (
                select {{ join.on | join(', ') }}, count(*) as left_rows
                from {{ left }} as left_row
                group by {{ join.on | join(', ') }}
            ) as left_keys
            inner join (
                select {{ join.on.values() | unique | join(', ') }}, count(*) as right_rows
                from {{ right }} as right_row
                group by {{ join.on.values() | unique | join(', ') }}
            ) as right_keys
                on
                {%- for column, other in join.on.items() %}
                left_keys.{{ column }} {{ join.equals(column) }} right_keys.{{ other }}
                {{- ' and' if not loop.last }}
                {%- endfor %}
            where
                right_keys.right_rows > 1
                and greatest(left_keys.left_rows, right_keys.right_rows) > {{ most | int }}
            order by cast(left_rows as double) * right_rows desc, join_key
            limit 5
        {%- endset -%}
        {%- set skewed = adapter.joins.skewed_keys(skewed_sql) -%}
        {%- if skewed -%}
            {%- do exceptions.warn(
                model.name ~ ': keys with more than ' ~ most ~ ' rows in a join (var '
                ~ 'join_rows_per_key): ' ~ skewed | join('; ')
            ) -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}
