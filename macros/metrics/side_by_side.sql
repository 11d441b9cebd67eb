{#
    Measures of several domains side by side by what they share: one row per group that any of them
    has. A domain that lacks a group is null there; its row isn't lost.

    domains: CTE -> its measures, one row per group in each; keys: columns that they all have. Nulls
    among the keys are a group like any other.
#}
{% macro side_by_side(keys, domains) -%}
    {%- do _validate_side_by_side(keys, domains) -%}
    {%- set measures = domains.values() | sum(start=[]) -%}
    select
        {{ keys | join(',\n        ') }},
        {%- for name in measures %}
        any_value({{ name }}, true) as {{ name }}{{ ',' if not loop.last }}
        {%- endfor %}
    from (
        {%- for cte, own in domains.items() %}
        select
            {{ keys | join(',\n            ') }},
            {%- for name in measures %}
            {{ name if name in own else 'null as ' ~ name }}{{ ',' if not loop.last }}
            {%- endfor %}
        from {{ cte }}
        {%- if not loop.last %}
        union all
        {%- endif %}
        {%- endfor %}
    ) as all_domains
    group by {{ keys | join(', ') }}
{%- endmacro %}

{% macro _validate_side_by_side(keys, domains) -%}
    {%- set problems = [] -%}
    {%- if keys is string or keys is not sequence or not keys -%}
        {%- do problems.append('keys must be a list of column names, got ' ~ keys) -%}
    {%- endif -%}
    {%- if domains is not mapping or domains | length < 2 -%}
        {%- do problems.append('domains must map two CTEs or more to their measures, got '
            ~ domains) -%}
    {%- else -%}
        {%- set names = domains.values() | sum(start=[]) -%}
        {%- if names | unique | list | length < names | length -%}
            {%- do problems.append('a measure may stand in one domain only, got ' ~ domains) -%}
        {%- endif -%}
    {%- endif -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error(
            'side_by_side: ' ~ problems | join('; ') ~ ". Example: side_by_side("
            ~ "keys=['cut_date'], domains={'traffic': ['pv', 'uv'], 'orders': ['gmv']})"
        ) -%}
    {%- endif -%}
{%- endmacro %}
