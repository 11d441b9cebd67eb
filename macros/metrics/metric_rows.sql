{#
    Rows of a metric, of all its grains and dimension sets at once, from the events of whole
    business days: dimension_set, grain, window_start, window_end, the dimensions (null where the
    set hasn't them), the measures and cut_date.

    Sums, counts and sketches are made of the events per 5 minutes, and coarser grains of those
    rows. The number of distinct values doesn't add up, so each grain counts the values themselves:
    a second pass over the events. A value is there in 5 minutes while its rows that came are more
    than those that went; so a retraction takes exactly its own away, and sketches are rebuilt of
    what is left.

    The model's commit records how the metric is declared: windows of another declaration don't mix
    with these.
#}
{% macro metric_rows(metric, from_cte) -%}
    {%- set plan = _metric_plan(metric, from_cte) -%}
    {%- if execute -%}
        {%- do adapter.counts.record_count(
            model, {'metric': metric}, is_incremental()
        ) -%}
    {%- endif -%}
    {%- set group = ['dimension_set', 'grain', 'window_start'] + plan.dimensions -%}
    select
        dimension_set,
        grain,
        window_start,
        {{ _by_grain(plan.grains, 'windows.window_start', 'end') | indent(4) }} as window_end,
        {%- for column in plan.dimensions + plan.measures | list %}
        {{ column }},
        {%- endfor %}
        cast(from_utc_timestamp(window_start, '{{ var('business_zone') }}') as date) as cut_date
    from (
        {%- if plan.exact %}
        select
            {{ group | join(',\n            ') }},
            {%- for name, measure in plan.measures.items() %}
            {{ measure.merged }} as {{ name }}{{ ',' if not loop.last }}
            {%- endfor %}
        from (
            {{ _rolled_up(plan) | indent(8) }}
            union all
            {{ _distinct_values(plan) | indent(8) }}
        ) as both_kinds
        group by {{ group | join(', ') }}
        {%- else %}
        {{ _rolled_up(plan) | indent(4) }}
        {%- endif %}
    ) as windows
    where {{ plan.sums | join(' <> 0 or ') }} <> 0
{%- endmacro %}

{# 5-minute rows, and coarser rows made of them. #}
{% macro _rolled_up(plan) -%}
    select
        dimension_set,
        grain,
        {{ _by_grain(plan.grains, 'five_minutes.window_start') | indent(4) }} as window_start,
        {%- for column in plan.dimensions %}
        {{ column }},
        {%- endfor %}
        {%- for name, measure in plan.measures.items() %}
        {{ measure.rolled }} as {{ name }}{{ ',' if not loop.last }}
        {%- endfor %}
    from (
        {{ _five_minutes(plan) | indent(4) }}
    ) as five_minutes
    lateral view explode({{ _text_array(plan.grains) }}) grains as grain
    group by
        dimension_set,
        grain,
        {{ _by_grain(plan.grains, 'five_minutes.window_start') | indent(4) }}
        {%- for column in plan.dimensions %},
        {{ column }}
        {%- endfor %}
{%- endmacro %}

{# What adds up, and sketches of the values that are there, per 5 minutes. #}
{% macro _five_minutes(plan) -%}
    {%- set group = ['dimension_set', 'window_start'] + plan.dimensions -%}
    {%- set rows = _tagged_events(plan, ['rows'] + plan.sketched, ['5m']) -%}
    {%- if not plan.sketched -%}
    select
        {{ group | join(',\n        ') }},
        {%- for name in plan.sums %}
        sum({{ name }}) as {{ name }}{{ ',' if not loop.last }}
        {%- endfor %}
    from (
        {{ rows | indent(4) }}
    ) as tagged_events
    group by {{ group | join(', ') }}
    {%- else -%}
    select
        {{ group | join(',\n        ') }},
        {%- for name in plan.sums %}
        sum({{ name }}) as {{ name }},
        {%- endfor %}
        {%- for name, measure in plan.sketches.items() %}
        {{ measure.made }} filter (
            where value_of = '{{ measure.value_of }}' and copies > 0
        ) as {{ name }}{{ ',' if not loop.last }}
        {%- endfor %}
    from (
        select
            {{ group | join(',\n            ') }},
            value_of,
            value,
            {%- for name in plan.sums %}
            sum({{ name }}) as {{ name }},
            {%- endfor %}
            sum(sign) as copies
        from (
            {{ rows | indent(8) }}
        ) as tagged_events
        group by {{ group | join(', ') }}, value_of, value
    ) as event_values
    group by {{ group | join(', ') }}
    {%- endif -%}
{%- endmacro %}

{# Exact numbers of the values that are there per 5 minutes; the other measures are null. #}
{% macro _distinct_values(plan) -%}
    {%- set group = ['dimension_set', 'grain', 'window_start'] + plan.dimensions -%}
    {%- set values = ['dimension_set', 'window_start'] + plan.dimensions
        + ['value_of', 'value'] -%}
    select
        {{ group | join(',\n        ') }},
        {%- for name, measure in plan.measures.items() %}
        {% if measure.value_of is defined and not measure.made -%}
            count(distinct case when value_of = '{{ measure.value_of }}' then value end)
        {%- else -%}
            cast(null as {{ measure.type }})
        {%- endif %} as {{ name }}{{ ',' if not loop.last }}
        {%- endfor %}
    from (
        select
            dimension_set,
            grain,
            {{ _by_grain(plan.grains, 'event_values.window_start') | indent(8) }}
                as window_start,
            {%- for column in plan.dimensions %}
            {{ column }},
            {%- endfor %}
            value_of,
            value
        from (
            select
                {{ values | join(',\n                ') }}
            from (
                {{ _tagged_events(plan, plan.exact, ['5m']) | indent(12) }}
            ) as tagged_events
            where value is not null
            group by {{ values | join(', ') }}
            having sum(sign) > 0
        ) as event_values
        lateral view explode({{ _text_array(plan.grains) }}) grains as grain
    ) as values_of_grains
    group by {{ group | join(', ') }}
{%- endmacro %}

{#
    The events once for each dimension set, grain, and kind of value that is asked of them: `rows`
    for what adds up, else the label of a counted column.
#}
{% macro _tagged_events(plan, kinds, grains) -%}
    select
        dimension_set,
        grain,
        {{ _by_grain(grains, plan.time) | indent(4) }} as window_start,
        {%- for column in plan.dimensions %}
        case
            when dimension_set in ({{ _texts(plan.sets_with[column]) }}) then {{ column }}
        end as {{ column }},
        {%- endfor %}
        {%- if kinds != ['rows'] %}
        value_of,
        case value_of
            {%- for kind in kinds if kind != 'rows' %}
            when '{{ kind }}' then {{ plan['values'][kind] }}
            {%- endfor %}
        end as value,
        {%- endif %}
        {%- if 'rows' in kinds %}
        {%- for name in plan.sums %}
        {% if kinds == ['rows'] -%}
            {{ plan.measures[name].event }}
        {%- else -%}
            case when value_of = 'rows' then {{ plan.measures[name].event }} end
        {%- endif %} as {{ name }},
        {%- endfor %}
        {%- endif %}
        sign
    from {{ plan.from_cte }}
    lateral view explode({{ _text_array(plan.sets) }}) dimension_sets as dimension_set
    {%- if kinds != ['rows'] %}
    lateral view explode({{ _text_array(kinds) }}) kinds as value_of
    {%- endif %}
    lateral view explode({{ _text_array(grains) }}) grains as grain
    where {{ plan.time }} is not null
{%- endmacro %}

{# Start or end of the window of the row's grain. #}
{% macro _by_grain(grains, time, edge='start') -%}
    case grain
        {%- for grain in grains %}
        when '{{ grain }}' then {{ (
            window_start(time, grain) if edge == 'start' else _window_end(time, grain)
        ) | indent(4) }}
        {%- endfor %}
    end
{%- endmacro %}

{% macro _texts(names) -%}
    '{{ names | join("', '") }}'
{%- endmacro %}

{% macro _text_array(names) -%}
    array({{ _texts(names) }})
{%- endmacro %}

{#
    A metric's declaration, checked, as what the queries above need: {from_cte, time, grains, sets,
    dimensions, sets_with (dimension -> sets), measures, sums, sketches, values (label -> the
    value's SQL), sketched and exact (labels)}.
#}
{% macro _metric_plan(declared, from_cte) -%}
    {%- set problems = [] -%}
    {%- if declared is not mapping -%}
        {%- do problems.append('it must be a mapping, got ' ~ declared) -%}
        {%- set declared = {} -%}
    {%- endif -%}
    {%- set known = ['time', 'grains', 'dimension_sets', 'measures'] -%}
    {%- for name in declared if name not in known -%}
        {%- do problems.append('it has ' ~ name ~ ', but only ' ~ known | join(', ')
            ~ ' are known') -%}
    {%- endfor -%}
    {%- if declared.get('time') is not string -%}
        {%- do problems.append('time must name a column, got ' ~ declared.get('time')) -%}
    {%- endif -%}
    {%- set grains = declared.get('grains', ['5m', '10m', '1h', '1d']) -%}
    {%- if grains is string or grains is not sequence or not grains
        or grains | reject('in', _window_sizes()) | list -%}
        {%- do problems.append('grains must be a list of some of '
            ~ _window_sizes() | join(', ') ~ ', got ' ~ grains) -%}
    {%- endif -%}
    {%- set sets = declared.get('dimension_sets', {'all': []}) -%}
    {%- set dimensions, sets_with = [], {} -%}
    {%- if sets is not mapping or not sets -%}
        {%- do problems.append('dimension_sets must map names to lists of columns, got '
            ~ sets) -%}
        {%- set sets = {} -%}
    {%- endif -%}
    {%- for name, columns in sets.items() -%}
        {%- if columns is string or columns is not sequence -%}
            {%- do problems.append('dimension set ' ~ name ~ ' must be a list of columns, got '
                ~ columns) -%}
        {%- else -%}
            {%- for column in columns -%}
                {%- if column not in dimensions -%}
                    {%- do dimensions.append(column) -%}
                    {%- do sets_with.update({column: []}) -%}
                {%- endif -%}
                {%- do sets_with[column].append(name) -%}
            {%- endfor -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set plan = {
        'from_cte': from_cte,
        'time': declared.get('time'),
        'grains': grains,
        'sets': sets | list,
        'dimensions': dimensions,
        'sets_with': sets_with,
        'measures': {},
        'sums': [],
        'sketches': {},
        'values': {},
        'sketched': [],
        'exact': [],
    } -%}
    {%- set measures = declared.get('measures') -%}
    {%- if measures is not mapping or not measures -%}
        {%- do problems.append('measures must be a mapping of names, got ' ~ measures) -%}
        {%- set measures = {} -%}
    {%- endif -%}
    {%- for name, measure in measures.items() -%}
        {%- set problem = _add_measure(plan, name, measure) -%}
        {%- if problem -%}
            {%- do problems.append(problem) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not problems and not plan.sums -%}
        {%- do problems.append('measures must have a count or a sum') -%}
    {%- endif -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error(
            'The declaration of a metric is wrong: ' ~ problems | join('; ') ~ ". Example: "
            ~ "{time: viewed_at, grains: [5m, 1h, 1d], dimension_sets: {all: [], page: [page]}, "
            ~ "measures: {pv: {aggregate: count}, "
            ~ "uv: {aggregate: count_distinct, column: visitor_id}}}"
        ) -%}
    {%- endif -%}
    {%- do return(plan) -%}
{%- endmacro %}

{# Adds a measure to the plan. Returns the error text of a wrong measure, else none. #}
{% macro _add_measure(plan, name, measure) -%}
    {%- set given = measure if measure is mapping else {} -%}
    {%- set kind, column = given.get('aggregate'), given.get('column') -%}
    {%- set kinds = ['count', 'sum', 'count_distinct', 'hll', 'theta'] -%}
    {%- if kind not in kinds -%}
        {%- do return('measure ' ~ name ~ ' must have an aggregate of ' ~ kinds | join(', ')
            ~ ', got ' ~ measure) -%}
    {%- endif -%}
    {%- set unknown = given | reject('in', ['aggregate', 'column', 'type', 'where', 'lg_k'])
        | list -%}
    {%- if unknown -%}
        {%- do return('measure ' ~ name ~ ' has ' ~ unknown | join(', ')
            ~ ', but only aggregate, column, type, where and lg_k are known') -%}
    {%- endif -%}
    {%- if (kind == 'count') == (column is string) -%}
        {%- do return('measure ' ~ name ~ (
            ' counts rows and has no column' if kind == 'count' else ' must name its column'
        ) ~ ', got ' ~ measure) -%}
    {%- endif -%}
    {%- set condition = given.get('where') -%}
    {%- if kind in ('count', 'sum') -%}
        {%- set problem = _sum_type_problem(name, measure) if kind == 'sum' -%}
        {%- if problem -%}
            {%- do return(problem) -%}
        {%- endif -%}
        {%- set type = 'bigint' if kind == 'count' else given.type -%}
        {%- set value = 'sign' if kind == 'count' else signed(column) -%}
        {%- if condition -%}
            {%- set value = 'case when ' ~ condition ~ ' then ' ~ value ~ ' end' -%}
        {%- endif -%}
        {%- do plan.sums.append(name) -%}
        {%- do plan.measures.update({name: {
            'event': value,
            'rolled': 'cast(coalesce(sum(' ~ name ~ '), 0) as ' ~ type ~ ')',
            'merged': 'cast(coalesce(sum(' ~ name ~ '), 0) as ' ~ type ~ ')',
            'type': type,
        }}) -%}
        {%- do return(none) -%}
    {%- endif -%}
    {%- set label = name if condition else column -%}
    {%- set text = 'cast(' ~ column ~ ' as string)' -%}
    {%- if condition -%}
        {%- set text = 'case when ' ~ condition ~ ' then ' ~ text ~ ' end' -%}
    {%- endif -%}
    {%- do plan['values'].update({label: text}) -%}
    {%- set labels = plan.exact if kind == 'count_distinct' else plan.sketched -%}
    {%- if label not in labels -%}
        {%- do labels.append(label) -%}
    {%- endif -%}
    {%- if kind == 'count_distinct' -%}
        {%- do plan.measures.update({name: {
            'value_of': label,
            'rolled': 'cast(null as bigint)',
            'merged': 'cast(coalesce(sum(' ~ name ~ '), 0) as bigint)',
            'type': 'bigint',
        }}) -%}
        {%- do return(none) -%}
    {%- endif -%}
    {%- set lg_k = given.get('lg_k', 12) -%}
    {%- if lg_k is not integer or lg_k < 4 or lg_k > 21 -%}
        {%- do return('measure ' ~ name ~ ': lg_k must be a whole number from 4 to 21, got '
            ~ lg_k) -%}
    {%- endif -%}
    {%- set sketch = {
        'value_of': label,
        'made': kind ~ '_sketch_agg(value, ' ~ lg_k ~ ')',
        'rolled': kind ~ '_union_agg(' ~ name ~ (', ' ~ lg_k if kind == 'theta' else '') ~ ')',
        'merged': 'max(' ~ name ~ ')',
        'type': 'binary',
    } -%}
    {%- do plan.measures.update({name: sketch}) -%}
    {%- do plan.sketches.update({name: sketch}) -%}
    {%- do return(none) -%}
{%- endmacro %}
