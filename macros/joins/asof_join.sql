{#
    Each left row with the right row of its key that is nearest by time; at most one.

        right      09:58 a                10:04 b
        left                 10:00 x                 10:05 y

        backward   x a, y b     the last at or before the left row's time
        forward    x b, y -     the first at or after it
        nearest    x a, y b     of these two the nearer row; at a tie the earlier

    tolerance: how far the times may lie from each other, '5 minutes'; the bound belongs to it.
    Without it any. strict: a right row of the same time is no partner.

    Of right rows that share a time the last counts looking back, the first looking forward, in the
    order of the right side's `tie_break` (columns, the log's position for instance), then of its
    key, then of all values that are read. A row without a time has no partner.

    A right row that comes late, changes or goes takes over, or gives up, the left rows between its
    time and the right row behind it (backward), before it (forward), or both (nearest), in the run
    that brings it; no other pair is written.

        right      09:58 a     10:04 b            09:58 a   10:01 c   10:04 b
        left            10:00 x   10:02 y              10:00 x   10:02 y
        joined          x a       y a                  x a       y c

    Cost: see repaired_join. A changed right row reads the right rows of its key behind it
    (backward) or before it (forward), up to the tolerance, and the left rows up to the nearest
    right row that stays as it was, or to the tolerance. A left row reads the right rows of its key
    on the side that it looks at, up to the tolerance: without one a run reads the right side's
    whole past (forward: what follows) of the keys that it touches. Partners are found by sorting
    the rows of both sides of a key together once, so that a key with many rows on both sides costs
    their sum, not their product. Where a dimension has valid_from and valid_to, temporal_join
    leaves out files of versions that ended.
#}
{% macro asof_join(
    left, right, on, direction='backward', tolerance=none, strict=false, kind='inner'
) -%}
    {{- _joined({
        'form': 'asof_join',
        'left': left,
        'right': right,
        'on': on,
        'kind': kind,
        'direction': direction,
        'tolerance': tolerance,
        'strict': strict,
    }) -}}
{%- endmacro %}

{# The query of all left rows with their nearest right rows; see _pairs. #}
{% macro _asof_pairs(join, left, right, number) -%}
    {%- set asof = join.asof -%}
    {%- set at, other = asof.at, asof.other -%}
    {%- set keys = range(join.on | length) -%}
    {#- at one time the right rows come before the left row that they may be partners of; a left
        row without a time comes before all -#}
    {%- set turns = {'left': 0, 'right': 1} if asof.strict else {'left': 1, 'right': 0} -%}
    {%- set ways = {} -%}
    {%- if asof.looks_back -%}
        {%- do ways.update({'before': ''}) -%}
    {%- endif -%}
    {%- if asof.looks_ahead -%}
        {%- do ways.update({'behind': ' desc'}) -%}
    {%- endif -%}
    select
        {{- _pair_columns(join, number) }}
    from (
        select
            left_row,
            {% if ways | length == 2 -%}
            case
                when row_before is null then row_behind
                when row_behind is null then row_before
                when
                    {{ _micros('left_row.' ~ at) }} - {{ _micros('row_before.' ~ other) }}
                    <= {{ _micros('row_behind.' ~ other) }} - {{ _micros('left_row.' ~ at) }}
                    then row_before
                else row_behind
            end as right_row
            {%- else -%}
            row_{{ ways.keys() | first }} as right_row
            {%- endif %}
        from (
            select
                left_row,
                {%- for way in ways %}
                {%- set sign = '-' if way == 'before' else '+' %}
                {%- set bound = 'left_row.' ~ at ~ ' ' ~ sign ~ ' ' ~ asof.tolerance %}
                {% if asof.tolerance -%}
                if(
                    row_{{ way }}.{{ other }} {{ '>=' if way == 'before' else '<=' }} {{ bound }},
                    row_{{ way }},
                    null
                ) as row_{{ way }}
                {%- else -%}
                row_{{ way }}
                {%- endif -%}
                {{ ',' if not loop.last }}
                {%- endfor %}
            from (
                select
                    left_row,
                    {%- for way, order in ways.items() %}
                    last_value(right_row, true) over (
                        partition by
                            {%- for number in keys %}
                            join__key_{{ number }}{{ ',' if not loop.last }}
                            {%- endfor %}
                        order by
                            join__time{{ order }} nulls first,
                            join__turn,
                            join__place{{ order }}
                        rows between unbounded preceding and current row
                    ) as row_{{ way }}{{ ',' if not loop.last }}
                    {%- endfor %}
                from (
                    select
                        {%- for column in join.on %}
                        {{ column }} as join__key_{{ loop.index0 }},
                        {%- endfor %}
                        {{ at }} as join__time,
                        {{ turns.left }} as join__turn,
                        null as join__place,
                        struct({{ join.left.uses | join(', ') }}) as left_row,
                        null as right_row
                    from {{ left }} as left_side
                    {%- if join.kind == 'inner' %}
                    where {{ join.known_left | join(' is not null and ') }} is not null
                    {%- endif %}
                    union all
                    select
                        {%- for column in join.on.values() %}
                        {{ column }} as join__key_{{ loop.index0 }},
                        {%- endfor %}
                        {{ other }} as join__time,
                        {{ turns.right }} as join__turn,
                        {{ _asof_place(join) }} as join__place,
                        null as left_row,
                        struct({{ join.right.uses | join(', ') }}) as right_row
                    from {{ right }} as right_side
                    where {{ join.known_right | join(' is not null and ') }} is not null
                ) as rows_of_both
            ) as rows_in_order
            where left_row is not null
        ) as left_rows
    ) as nearest_rows
    {%- if join.kind == 'inner' %}
    where right_row is not null
    {%- endif %}
{%- endmacro %}

{# A time as microseconds, which are counted exactly. #}
{% macro _micros(time) -%}
    unix_micros(cast({{ time }} as timestamp))
{%- endmacro %}

{# What orders right rows of one time, in total. #}
{% macro _asof_place(join) -%}
    struct({{ (join.asof.order + join.right.uses) | unique | join(', ') }})
{%- endmacro %}

{#
    The times that changed right rows touch: of each key, and of each gap between right rows that
    stay as they are, the first and the last time of the changed rows, old and new, in it, and the
    times of the rows before and behind it, see Asof.touches.
#}
{% macro _asof_touching_rows(join, right, changed, keeps) -%}
    {%- set side = join.right -%}
    {%- set asof = join.asof -%}
    {%- set keys = join.on.values() | unique | list -%}
    {%- set known = join.known_right | join(' is not null and ') ~ ' is not null' -%}
    {%- set images -%}
        (select distinct {{ side.uses | join(', ') }} from {{ changed }} as changed)
    {%- endset -%}
    {%- set images = _kept(keeps, 'changed_right', images) -%}
    {%- set near = _near(keeps, images, join.wanted_neighbours).condition -%}
    {%- set near_rows = _right_rows_near(join, right, near, keeps, 'neighbour_keys') -%}
    {%- set gaps = {} -%}
    {%- if asof.looks_ahead -%}
        {%- do gaps.update({'join__since': ''}) -%}
    {%- endif -%}
    {%- if asof.looks_back -%}
        {%- do gaps.update({'join__until': ' desc'}) -%}
    {%- endif -%}
    select
        {{ keys | join(', ') }},
        min({{ asof.other }}) as join__first,
        max({{ asof.other }}) as join__last,
        {{ gaps | join(', ') }}
    from (
        select
            {{ keys | join(', ') }},
            {{ asof.other }},
            is_changed,
            {%- for name, order in gaps.items() %}
            last_value(if(is_changed, null, {{ asof.other }}), true) over (
                partition by {{ keys | join(', ') }}
                order by {{ asof.other }}{{ order }}, join__place{{ order }}
                rows between unbounded preceding and current row
            ) as {{ name }}{{ ',' if not loop.last }}
            {%- endfor %}
        from (
            select
                {{ keys | join(', ') }},
                {{ asof.other }},
                {{ _asof_place(join) }} as join__place,
                true as is_changed
            from {{ images }} as changed
            where {{ known }}
            union all
            select
                {{ keys | join(', ') }},
                {{ asof.other }},
                {{ _asof_place(join) }} as join__place,
                false as is_changed
            from (
                select held.*
                from {{ near_rows }} as held
                left anti join {{ images }} as touched on {{ _same_key(side.key, side.key) }}
            ) as staying
            where {{ known }}
        ) as right_rows
    ) as rows_in_order
    where is_changed
    group by {{ (keys + gaps.keys() | list) | join(', ') }}
{%- endmacro %}

{# From when to when the left rows of each key are. #}
{% macro _asof_times(join, left_rows) -%}
    (
                select
                    {{ join.on.keys() | join(', ') }},
                    min({{ join.asof.at }}) as join__first,
                    max({{ join.asof.at }}) as join__last
                from {{ left_rows }} as left_row
                group by {{ join.on.keys() | join(', ') }}
            )
{%- endmacro %}
