{#
    Rows of a metric, of all its grains and dimension sets at once, from the events of whole
    business days: dimension_set, grain, window_start, window_end, the dimensions (null where the
    set hasn't them), the measures and cut_date.

    Sums, counts and sketches are made of the events per 5 minutes, and coarser grains of those
    rows. The number of distinct values doesn't add up, so each grain counts the values themselves:
    a second pass over the events. A value is there in 5 minutes while its rows that came are more
    than those that went; so a retraction takes exactly its own away, and sketches are rebuilt of
    what is left. A window is there while it has events, whatever its sums come to.

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
        {%- for column in plan.dimensions + plan.shown %}
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
    for what adds up, else the label of a counted column, or of a measure with a condition.
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
    dimensions, sets_with (dimension -> sets), measures, shown (those that are declared), sums,
    sketches, values (label -> the value's SQL), sketched and exact (labels)}.
#}
{% macro _metric_plan(declared, from_cte) -%}
    {%- set declared = adapter.counts.metric_plan(declared, _window_sizes() | list) -%}
    {%- set plan = dict(
        declared,
        from_cte=from_cte,
        measures={},
        shown=declared.measures | list,
        sums=[],
        sketches={},
        values={},
        sketched=[],
        exact=[],
    ) -%}
    {%- for name, measure in declared.measures.items() -%}
        {%- do _add_measure(plan, name, measure) -%}
    {%- endfor -%}
    {%- set counts = declared.measures.values() | selectattr('aggregate', 'equalto', 'count') -%}
    {%- if not counts | rejectattr('where') | list -%}
        {%- do _add_measure(plan, 'metric__events', {'aggregate': 'count'}) -%}
    {%- endif -%}
    {%- do return(plan) -%}
{%- endmacro %}

{# Adds the SQL of a measure to the plan. #}
{% macro _add_measure(plan, name, measure) -%}
    {%- set kind, column = measure.aggregate, measure.column -%}
    {%- if kind in ('count', 'sum') -%}
        {%- set type = 'bigint' if kind == 'count' else measure.type -%}
        {%- set value = 'sign' if kind == 'count' else signed(column) -%}
        {%- if measure.where -%}
            {%- set value = 'case when ' ~ measure.where ~ ' then ' ~ value ~ ' end' -%}
        {%- endif -%}
        {%- set sum = 'cast(coalesce(sum(' ~ name ~ '), 0) as ' ~ type ~ ')' -%}
        {%- do plan.sums.append(name) -%}
        {%- do plan.measures.update({name: {
            'event': value, 'rolled': sum, 'merged': sum, 'type': type
        }}) -%}
    {%- else -%}
        {#- no label is `rows`, nor that of another value -#}
        {%- set label = 'measure ' ~ name if measure.where else 'column ' ~ column -%}
        {%- set text = 'cast(' ~ column ~ ' as string)' -%}
        {%- if measure.where -%}
            {%- set text = 'case when ' ~ measure.where ~ ' then ' ~ text ~ ' end' -%}
        {%- endif -%}
        {%- do plan['values'].update({label: text}) -%}
        {%- set labels = plan.exact if kind == 'count_distinct' else plan.sketched -%}
        {%- if label not in labels -%}
            {%- do labels.append(label) -%}
        {%- endif -%}
        {%- do plan.measures.update({
            name: _distinct_count(name, label)
            if kind == 'count_distinct' else _sketch(name, label, kind, measure.lg_k)
        }) -%}
        {%- if kind != 'count_distinct' -%}
            {%- do plan.sketches.update({name: plan.measures[name]}) -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}

{# The SQL of a measure that counts distinct values. #}
{% macro _distinct_count(name, label) -%}
    {%- do return({
        'value_of': label,
        'rolled': 'cast(null as bigint)',
        'merged': 'cast(coalesce(sum(' ~ name ~ '), 0) as bigint)',
        'type': 'bigint',
    }) -%}
{%- endmacro %}

{# The SQL of a measure that keeps a sketch. #}
{% macro _sketch(name, label, kind, lg_k) -%}
    {%- do return({
        'value_of': label,
        'made': kind ~ '_sketch_agg(value, ' ~ lg_k ~ ')',
        'rolled': kind ~ '_union_agg(' ~ name ~ (', ' ~ lg_k if kind == 'theta' else '') ~ ')',
        'merged': 'max(' ~ name ~ ')',
        'type': 'binary',
    }) -%}
{%- endmacro %}
