{#
    What a reconciliation came to, as a row of meta_quality. No row where the check hasn't run
    since, or never; what is only compiled shows what it would read.

    of: the reconciliation's model, read through new_rows.
    count: the declaration of what it compares.
    level: as of `compared`.
#}
{% macro quality_rows(check, of, count, level='totals') -%}
    {%- do adapter.declarations.check_arguments('compared', {'level': level}) -%}
    {%- set plan = adapter.counts.count_plan(count) -%}
    {%- set sums, counts = [], [] -%}
    {%- for name, sum in plan.sums.items() -%}
        {%- set column = sum.change if level == 'days' else name -%}
        {%- if sum.aggregate == 'sum' -%}
            {%- do sums.append(column ~ '_difference') -%}
        {%- else -%}
            {%- do counts.append(column) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set is_read = flags.WHICH not in ['compile', 'generate'] -%}
    {%- set has_run = (
        not execute or not is_read or of.is_cte or load_relation(of) is not none
    ) -%}
    select
        '{{ check }}' as check_name,
    {%- if has_run %}
        is_compared,
        groups_compared,
        groups_differing,
        {{ counts[0] }}_got as count_got,
        {{ counts[0] }}_expected as count_expected,
        {{ counts[0] }}_difference as count_difference,
        cast({{ sums | join(' + ') or '0' }} as decimal(38, 4)) as sum_difference
    from {{ of }}
    where is_total
    {%- else %}
        true as is_compared,
        cast(0 as bigint) as groups_compared,
        cast(0 as bigint) as groups_differing,
        cast(0 as bigint) as count_got,
        cast(0 as bigint) as count_expected,
        cast(0 as bigint) as count_difference,
        cast(0 as decimal(38, 4)) as sum_difference
    where false
    {%- endif %}
{%- endmacro %}
