{#
    Net change of each day from retract rows: count and sums of the rows that came less those that
    went, per cut date and dimensions.

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
        {%- for name in cut.sums -%}
            {%- do declared.sums.update({name: cut.measures[name]}) -%}
        {%- endfor -%}
        {%- do adapter.counts.record_count(model, declared, is_incremental()) -%}
    {%- endif -%}
    select
        {{ ([into] + grain + cut.sums | list) | join(',\n        ') }}
    from (
        select
            {{ date }} as {{ into }},
            {%- for column in grain %}
            {{ column }},
            {%- endfor %}
            {%- for name, sum in cut.sums.items() %}
            {{ sum[sums] }} as {{ name }}{{ ',' if not loop.last }}
            {%- endfor %}
        from {{ from_cte }}
        group by {{ ([date] + grain) | join(', ') }}
    ) as net_changes
    -- the count may stay as it was and a sum move all the same
    where {{ cut.sums | join(' <> 0 or ') }} <> 0
{%- endmacro %}

{#
    A count's declaration, checked: {cut_column, dimensions, values (columns that min, max and
    count_distinct are of), sums (column of the days -> {daily: its sum over retract rows, rolled:
    over rows of a level, type}), count (the column that counts rows), measures (as declared)}.
#}
{% macro _checked_count(declared) -%}
    {%- set problems = [] -%}
    {%- if declared is not mapping -%}
        {%- do problems.append('it must be a mapping, got ' ~ declared) -%}
        {%- set declared = {} -%}
    {%- endif -%}
    {%- for name in declared if name not in ('cut_column', 'dimensions', 'measures') -%}
        {%- do problems.append(
            'it has ' ~ name ~ ', but only cut_column, dimensions and measures are known'
        ) -%}
    {%- endfor -%}
    {%- set dimensions = declared.get('dimensions') -%}
    {%- if dimensions is string or dimensions is not sequence or not dimensions -%}
        {%- do problems.append(
            'dimensions must be a list of column names, got ' ~ dimensions
        ) -%}
        {%- set dimensions = [] -%}
    {%- endif -%}
    {%- set measures = declared.get('measures') -%}
    {%- if measures is not mapping or not measures -%}
        {%- do problems.append('measures must be a mapping of names, got ' ~ measures) -%}
        {%- set measures = {} -%}
    {%- endif -%}
    {%- set cut = {
        'cut_column': declared.get('cut_column', 'cut_date'),
        'dimensions': dimensions,
        'values': [],
        'sums': {},
        'measures': measures,
    } -%}
    {%- for name, measure in measures.items() -%}
        {%- set kind = measure.get('aggregate') if measure is mapping else none -%}
        {%- set column = measure.get('column') if measure is mapping else none -%}
        {%- if kind not in ('count', 'sum', 'min', 'max', 'count_distinct') -%}
            {%- do problems.append(
                'measure ' ~ name ~ ' must have an aggregate of count, sum, min, max or '
                ~ 'count_distinct, got ' ~ measure
            ) -%}
        {%- elif kind == 'count' -%}
            {%- if column is not none -%}
                {%- do problems.append(
                    'measure ' ~ name ~ ' counts rows and has no column, got ' ~ column
                ) -%}
            {%- endif -%}
            {%- do cut.sums.update({name: {
                'daily': 'cast(sum(sign) as bigint)',
                'rolled': 'cast(sum(' ~ name ~ ') as bigint)',
                'type': 'bigint',
            }}) -%}
            {%- do cut.update(count=cut.count | default(name)) -%}
        {%- elif column is not string or not column -%}
            {%- do problems.append(
                'measure ' ~ name ~ ' must name its column, got ' ~ measure
            ) -%}
        {%- elif kind == 'sum' -%}
            {%- set type = measure.get('type') -%}
            {%- set problem = _sum_type_problem(name, measure) -%}
            {%- if problem -%}
                {%- do problems.append(problem) -%}
            {%- endif -%}
            {%- do cut.sums.update({name: {
                'daily': 'cast(coalesce(sum(' ~ signed(column) ~ '), 0) as ' ~ type ~ ')',
                'rolled': 'cast(sum(' ~ name ~ ') as ' ~ type ~ ')',
                'type': type,
            }}) -%}
        {%- elif column not in cut['values'] and column not in cut.dimensions -%}
            {%- do cut['values'].append(column) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not problems and not cut.count -%}
        {%- do problems.append(
            'measures must include a count: a group is there while its count '
            ~ 'is not 0'
        ) -%}
    {%- endif -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error(
            'The declaration of a count is wrong: ' ~ problems | join('; ') ~ ". Example: "
            ~ "{dimensions: [user_id], measures: {order_count: {aggregate: count}, "
            ~ "amount_sum: {aggregate: sum, column: amount, type: 'decimal(38, 2)'}}}"
        ) -%}
    {%- endif -%}
    {%- do return(cut) -%}
{%- endmacro %}
