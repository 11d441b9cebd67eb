{#
    The groups in which two answers differ, and one row (is_total) for the comparison as a whole:
    how many groups were compared, how many differ, and by how much together. That row is there
    also where nothing differs, so that a check which ran can be distinguished from one that didn't.

    from_cte: a CTE of `compared` for the same count and level.
    reached_cte: a CTE of one row whose is_reached is whether the answers can be compared; without
    it they always are.
#}
{% macro reconciliation(count, from_cte, level='totals', reached_cte=none) -%}
    {%- set shape = _compared_shape(count, level) -%}
    {%- set differs = [] -%}
    {%- for name in shape.types -%}
        {%- do differs.append('not ' ~ name ~ '_got <=> ' ~ name ~ '_expected') -%}
    {%- endfor -%}
    {%- set is_reached = (
        '(select is_reached from ' ~ reached_cte ~ ')' if reached_cte else 'true'
    ) -%}
    select
        false as is_total,
        {%- for key in shape['keys'] %}
        {{ key }},
        {%- endfor %}
        {%- for name, type in shape.types.items() %}
        {{ name }}_got,
        {{ name }}_expected,
        {%- if type %}
        {{ name }}_got - {{ name }}_expected as {{ name }}_difference,
        {%- endif %}
        {%- endfor %}
        true as is_compared,
        cast(1 as bigint) as groups_compared,
        cast(1 as bigint) as groups_differing
    from {{ from_cte }}
    where
        ({{ differs | join(' or ') }})
        {%- if reached_cte %}
        and {{ is_reached }}
        {%- endif %}
    union all
    select
        true as is_total,
        {%- for key in shape['keys'] %}
        null as {{ key }},
        {%- endfor %}
        {%- for name, type in shape.types.items() %}
        {%- if type %}
        coalesce(sum({{ name }}_got), 0) as {{ name }}_got,
        coalesce(sum({{ name }}_expected), 0) as {{ name }}_expected,
        coalesce(sum(abs({{ name }}_got - {{ name }}_expected)), 0) as {{ name }}_difference,
        {%- else %}
        null as {{ name }}_got,
        null as {{ name }}_expected,
        {%- endif %}
        {%- endfor %}
        {{ is_reached }} as is_compared,
        count(*) as groups_compared,
        count_if({{ differs | join(' or ') }}) as groups_differing
    from {{ from_cte }}
    {%- if reached_cte %}
    where {{ is_reached }}
    {%- endif %}
{%- endmacro %}
