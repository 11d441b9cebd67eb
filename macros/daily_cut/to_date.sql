{#
    Totals to date of a count, from the coarsest closed levels down: closed years, closed months
    behind them, days behind those. Their net changes (<measure>_change) add up to the measure. With
    `as_of` as of the end of that day. Rows without a day count in the totals, but in none as of a
    day.

    Which periods a level holds is written into the SQL as dates when it is compiled, so that a read
    opens no other partition. A level that has closed further periods since then is read as before,
    and the days still hold them: the sum stays the same.
#}
{% macro to_date(count, days, months=none, years=none, as_of=none) -%}
    {%- if not execute -%}
        {%- do return('') -%}
    {%- endif -%}
    {%- do adapter.declarations.check_arguments('to_date', {'as_of': as_of}) -%}
    {%- set as_of = as_of | string if as_of else none -%}
    {%- set cut = _checked_count(count) -%}
    {%- set grain = cut.dimensions + cut['values'] -%}
    {%- set all_add_up = cut.sums | length == cut.measures | length -%}
    {%- set levels = _levels(cut, days, months, years, as_of) -%}
    {%- set totals = _sum_of_levels(cut, grain, levels, all_add_up) -%}
    {%- if all_add_up -%}
        {{- totals -}}
    {%- else -%}
        {%- set counted = cut.sums[cut.count].change -%}
        {%- set there = 'filter (where ' ~ counted ~ ' > 0)' -%}
    select
        {%- for column in cut.dimensions %}
        {{ column }},
        {%- endfor %}
        {%- for name, measure in cut.measures.items() %}
        {% if name in cut.sums -%}
            {{ cut.sums[name].rolled }}
        {%- elif measure.aggregate == 'count_distinct' -%}
            count(distinct {{ measure.column }}) {{ there }}
        {%- else -%}
            {{ measure.aggregate }}({{ measure.column }}) {{ there }}
        {%- endif %} as {{ name }}{{ ',' if not loop.last }}
        {%- endfor %}
    from (
        {{ totals | indent(4) }}
    ) as totals_by_value
    group by {{ cut.dimensions | join(', ') }}
    having sum({{ counted }}) <> 0
    {%- endif -%}
{%- endmacro %}

{# The levels to read, coarsest first: [{relation, column, first day, day behind the last}]. #}
{% macro _levels(cut, days, months, years, as_of) -%}
    {%- set levels = [] -%}
    {%- set edge = namespace(first=none) -%}
    {%- for relation, column, period in [
        (years, 'cut_year', 'year'), (months, 'cut_month', 'month')
    ] if relation is not none and not relation.is_cte -%}
        {%- set closed = adapter.partitions.closed_before(relation) -%}
        {%- if closed and as_of -%}
            {%- set whole = as_of[:4] ~ '-01-01' if period == 'year' else as_of[:7] ~ '-01' -%}
            {%- set closed = [closed, whole] | min -%}
        {%- endif -%}
        {%- if closed and (edge.first is none or closed > edge.first) -%}
            {%- do levels.append({
                'relation': relation, 'column': column, 'first': edge.first, 'end': closed,
            }) -%}
            {%- set edge.first = closed -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do levels.append({
        'relation': days, 'column': cut.cut_column, 'first': edge.first, 'end': none,
        'has_undated': not as_of,
    }) -%}
    {%- if as_of -%}
        {%- do levels[-1].update(last=as_of) -%}
    {%- endif -%}
    {%- do return(levels) -%}
{%- endmacro %}

{# Measures by their own names; where some are of values (min, max, count_distinct) by those of the
   levels, as the sum over all values is still to come. #}
{% macro _sum_of_levels(cut, grain, levels, all_add_up) -%}
    select
        {%- for column in grain %}
        {{ column }},
        {%- endfor %}
        {%- for name, sum in cut.sums.items() %}
        {{ sum.rolled }} as {{ name if all_add_up else sum.change }}{{ ',' if not loop.last }}
        {%- endfor %}
    from (
        {%- for level in levels %}
        {%- set conditions = [] -%}
        {%- for operator, day in [
            ('>=', level.first), ('<', level.end), ('<=', level.last)
        ] if day -%}
            {%- do conditions.append(level.column ~ ' ' ~ operator ~ " date '" ~ day ~ "'") -%}
        {%- endfor %}
        {%- set where = conditions | join(' and ') -%}
        {%- if level.has_undated and conditions -%}
            {#- rows without a day are in no closed period -#}
            {%- set where = where ~ ' or ' ~ level.column ~ ' is null' -%}
        {%- endif %}
        select
            {{ (grain + cut.changes) | join(',\n            ') }}
        from {{ level.relation }}
        {%- if where %}
        where {{ where }}
        {%- endif %}
        {%- if not loop.last %}
        union all
        {%- endif %}
        {%- endfor %}
    ) as levels
    group by {{ grain | join(', ') }}
    {%- if all_add_up %}
    having sum({{ cut.sums[cut.count].change }}) <> 0
    {%- endif -%}
{%- endmacro %}
