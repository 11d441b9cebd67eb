{#
    Net change of each day from retract rows: count and sums of the rows that came less those that
    went, per cut date and dimensions. A measure's column is <measure>_change: the measure's own
    name is that of the total.

    A min, max or count_distinct can't be had from net changes alone: which value is next when the
    highest goes? So its column becomes part of the grain, and the net count of each value is kept.
#}
{% macro daily_cut(count, from_cte) -%}
    {%- set cut = _checked_count(count) -%}
    {{- _net_changes(cut, from_cte, cut.cut_column, cut.cut_column, 'daily') -}}
{%- endmacro %}

{#
    The sums (`daily` of retract rows, `rolled` of a finer level) per date and group, without those
    that come to nothing. `date` is the date's expression, `into` its name. The model's commit
    records what its rows count: days of another declaration don't mix with them.
#}
{% macro _net_changes(cut, from_cte, date, into, sums) -%}
    {%- set grain = cut.dimensions + cut['values'] -%}
    {%- if execute -%}
        {%- set declared = {'cut_column': cut.cut_column, 'grain': grain | sort, 'sums': {}} -%}
        {%- for name, sum in cut.sums.items() -%}
            {%- do declared.sums.update({sum.change: cut.measures[name]}) -%}
        {%- endfor -%}
        {%- do adapter.counts.record_count(model, declared, is_incremental()) -%}
    {%- endif -%}
    select
        {{ ([into] + grain + cut.changes) | join(',\n        ') }}
    from (
        select
            {{ date }} as {{ into }},
            {%- for column in grain %}
            {{ column }},
            {%- endfor %}
            {%- for sum in cut.sums.values() %}
            {{ sum[sums] }} as {{ sum.change }}{{ ',' if not loop.last }}
            {%- endfor %}
        from {{ from_cte }}
        group by {{ ([date] + grain) | join(', ') }}
    ) as net_changes
    -- the count may stay as it was and a sum move all the same
    where {{ cut.changes | join(' <> 0 or ') }} <> 0
{%- endmacro %}

{#
    A count's plan: {cut_column, dimensions, values (columns that min, max and count_distinct are
    of), sums (measure -> {change: its column in the levels, daily: its sum over retract rows,
    rolled: over rows of a level, type}), changes (all columns of net changes), count (the measure
    that counts rows), measures (as declared)}.
#}
{% macro _checked_count(declared) -%}
    {%- set plan = adapter.counts.count_plan(declared) -%}
    {%- set sums = {} -%}
    {%- for name, sum in plan.sums.items() -%}
        {%- if sum.aggregate == 'count' -%}
            {%- set daily = 'sum(sign)' -%}
        {%- else -%}
            {%- set daily = 'coalesce(sum(' ~ signed(sum.column) ~ '), 0)' -%}
        {%- endif -%}
        {%- do sums.update({name: {
            'change': sum.change,
            'daily': 'cast(' ~ daily ~ ' as ' ~ sum.type ~ ')',
            'rolled': 'cast(sum(' ~ sum.change ~ ') as ' ~ sum.type ~ ')',
            'type': sum.type,
        }}) -%}
    {%- endfor -%}
    {%- set changes = sums.values() | map(attribute='change') | list -%}
    {%- do return(dict(plan, sums=sums, changes=changes)) -%}
{%- endmacro %}
