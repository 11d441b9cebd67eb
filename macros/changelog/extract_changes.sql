{#
    What full extracts of a table change, as retract rows, beside the changes of the table's log
    where there is one: the rows of a keyed table (SCD 1) or a zipper (SCD 2).

    A complete extract states of every key what its row was at the extract's place: there with these
    values, or not there. It gives a row only where this is news: for a key whose row differs from
    the extract before it, and for a key that the log changed in between.

        extract 1 at 10    a 1.10    b 2.00                    +I a 1.10   +I b 2.00
        log at 15                    b 2.50                    +U b 2.50
        extract 2 at 20    a 1.20              c 3.00          +U a 1.20   -D b   +I c 3.00
        log at 25          a 1.30                              +U a 1.30

    A few lines are a model:

        {{ config(
            materialized='folded',
            unique_key='product_id',
            zipper={
                'sequence': ['taken_at', 'from_extract'], 'time': 'taken_at',
                'row_kind': 'row_kind',
            },
        ) }}
        {{ extract_changes(
            extracts={
                'rows': source('shop', 'product_extract'),
                'complete': source('shop', 'product_extract_done'),
                'id': 'extract_id',
                'row_count': 'row_count',
            },
            key='product_id',
            columns=['product_name', 'price'],
            sequence='taken_at',
            time='taken_at',
        ) }}

    `rows` has the rows of all extracts, `complete` a row of each extract that has landed as a
    whole: how many rows it has, its place among the changes (`sequence`) and, which a zipper needs,
    the column that dates it (`time`). An extract counts once it stands there; without rows its
    row_count is 0. Rows that landed twice count once. An extract of more or fewer keys than it
    declares, or with two different rows of a key, refuses the run before anything is written. So
    does an extract that removes more than most_removed_percent of the keys of the extract before
    it, where that is given.

    `log` is a relation of retract rows with the same columns. A change at an extract's own place
    counts as before it (from_extract is 0, that of an extract's row is 1). A change behind the
    extract stays, whichever of them comes first.

    Extracts and changes may come late, again and in any order: what an extract states of a key
    stays true whatever comes between. A late extract, or a late change, only adds what the next
    extract states of the keys that it touches.

    Cost: a new extract is read once, and the extract before it; a late extract, or a late change,
    also reads the extract behind it. The log between these extracts is read again, by ranges of
    its sequence. A full refresh reads all extracts twice, as it counts them first, and compares
    each change of the log with the place of each extract.
#}
{% macro extract_changes(extracts, key, columns, sequence, time=none, log=none) -%}
    {%- if execute -%}
        {%- set plan = adapter.extracts.declared_extracts(model, {
            'extracts': extracts,
            'key': key,
            'columns': columns,
            'sequence': sequence,
            'time': time,
            'log': log,
        }, graph) -%}
        {%- set inputs = {
            'rows': pinned(extracts.rows),
            'complete': pinned(extracts.complete),
            'new_complete': new_rows(extracts.complete),
            'log': pinned(log) if log else none,
            'new_log': new_rows(log) if log else none,
        } -%}
        {%- set writes = (
            not extracts.complete.is_cte
            and adapter.ranges.writes(flags)
            and not adapter.reading.nothing_new(model, graph)
        ) -%}
        {%- set before = adapter.extracts.declared_before(model, extracts.complete) -%}
        {%- if writes and before -%}
            {%- do adapter.extracts.refuse(
                model, _newest_extract_gone(plan, before, inputs.complete)
            ) -%}
        {%- endif -%}
        {%- set changes = _extract_changes(plan, inputs, writes, writes and is_incremental()) -%}
        {{- adapter.default_reads.given_by(model, 'extract_changes', changes) -}}
    {%- endif -%}
{%- endmacro %}

{# The query. A run that writes evaluates once which extracts it reads, and with `keeps` all that
   the query is made of; then it asks where that lies. #}
{% macro _extract_changes(plan, inputs, writes, keeps) -%}
    {%- set in_order = adapter.ranges.computed_once(
        model, 'extracts_in_order', _extracts_in_order(plan, inputs), writes
    ) -%}
    {%- set touched = 'select * from ' ~ in_order ~ ' where extract__is_touched' -%}
    {%- set touched = adapter.ranges.computed_once(
        model, 'touched_extracts', touched, writes
    ) -%}
    {%- set changed = none -%}
    {%- if plan.has_log -%}
        {%- set changed = adapter.ranges.computed_once(
            model,
            'changed_keys',
            _keys_changed_before_extracts(plan, inputs, in_order, touched, keeps),
            keeps,
        ) -%}
    {%- endif -%}
    {%- set reads = adapter.ranges.computed_once(
        model, 'extract_reads', _extract_reads(plan, touched, changed), writes
    ) -%}
    {%- if keeps and plan.has_log and not adapter.ranges.kept_count(model, reads) -%}
        {{- _changes_of_log(plan, inputs.new_log) -}}
    {%- else -%}
        {%- set near = _extract_pruning(keeps, reads, plan.wanted_rows) -%}
        {%- set stated = adapter.ranges.computed_once(
            model,
            'stated_rows',
            _stated_rows(plan, inputs.rows, reads, near, changed),
            keeps,
        ) -%}
        {%- if writes -%}
            {%- do adapter.extracts.refuse(
                model, _problems_of_extracts(plan, in_order, reads, stated)
            ) -%}
        {%- endif -%}
        {%- if plan.has_log -%}
            {{- _changes_of_log(plan, inputs.new_log) }}
    union all
        {%- endif -%}
        {{- _changes_of_extracts(plan, in_order, stated) -}}
    {%- endif -%}
{%- endmacro %}

{% macro _changes_of_log(plan, new_log) %}
    select
        {%- for name in plan.key + plan.columns %}
        {{ name }},
        {%- endfor %}
        row_kind,
        {%- for name in plan.sequence %}
        {{ name }},
        {%- endfor %}
        0 as from_extract
        {%- if plan.own_time %},
        {{ plan.time }}
        {%- endif %}
    from {{ new_log }} as log_changes
{%- endmacro %}

{# What extracts state of a key that they have otherwise than before, or that the log changed. #}
{% macro _changes_of_extracts(plan, in_order, stated) %}
    select
        {%- for name in plan.key %}
        stated.{{ name }},
        {%- endfor %}
        {%- for name in plan.columns %}
        stated.extract__row.{{ name }} as {{ name }},
        {%- endfor %}
        case
            when stated.extract__row is null then '-D'
            when stated.extract__earlier_row is null then '+I'
            else '+U'
        end as row_kind,
        {%- for name in plan.sequence %}
        in_order.{{ name }},
        {%- endfor %}
        1 as from_extract
        {%- if plan.own_time %},
        {% if plan.dated_by -%}
        {#- not after the extract, which has the row, nor before the earlier, which hadn't -#}
        greatest(
            least(stated.extract__row.{{ plan.dated_by }}, in_order.{{ plan.time }}),
            in_order.extract__earlier_time
        ) as {{ plan.time }}
        {%- else -%}
        in_order.{{ plan.time }}
        {%- endif %}
        {%- endif %}
    from {{ stated }} as stated
    inner join {{ in_order }} as in_order on in_order.{{ plan.id }} = stated.extract__at
    where
        stated.extract__is_changed
        or (
            in_order.extract__is_touched
            and not (stated.extract__earlier_row <=> stated.extract__row)
        )
{%- endmacro %}

{# Where rows lie that match others, as a condition; see pruning_condition. #}
{% macro _extract_pruning(keeps, rows, wanted) -%}
    {%- do return(
        adapter.ranges.pruning_condition(rows, wanted).condition if keeps else 'true'
    ) -%}
{%- endmacro %}

{#
    All complete extracts, each with the extract before it. New extracts are touched, and those
    behind a new extract. A declaration that comes twice counts once.
#}
{% macro _extracts_in_order(plan, inputs) -%}
    select
        {%- for name in plan.declared_columns %}
        {{ name }},
        {%- endfor %}
        extract__place,
        lag({{ plan.id }}) over (order by extract__place) as extract__earlier_id,
        lag(extract__place) over (order by extract__place) as extract__earlier_place,
        lag({{ plan.row_count }}) over (order by extract__place) as extract__earlier_count,
        {%- if plan.time %}
        lag({{ plan.time }}) over (order by extract__place) as extract__earlier_time,
        {%- endif %}
        (
            extract__is_new
            or coalesce(lag(extract__is_new) over (order by extract__place), false)
        ) as extract__is_touched
    from (
        select
            {%- for name in plan.declared_columns %}
            complete.{{ name }},
            {%- endfor %}
            struct(complete.{{ plan.sequence | join(', complete.') }}) as extract__place,
            new_extract.{{ plan.id }} is not null as extract__is_new
        from (
            select distinct {{ plan.declared_columns | join(', ') }}
            from {{ inputs.complete }} as declared
        ) as complete
        left join (
            select distinct {{ plan.id }}
            from {{ inputs.new_complete }} as new_declared
        ) as new_extract on new_extract.{{ plan.id }} = complete.{{ plan.id }}
    ) as extracts
{%- endmacro %}

{#
    Keys that the log changed between an extract and the extract before: of the touched extracts by
    all changes, of the others by those that are new.
#}
{% macro _keys_changed_before_extracts(plan, inputs, in_order, touched, keeps) -%}
    {{- _keys_changed(plan, inputs.new_log, 'true', in_order) }}
    {%- if not keeps or adapter.ranges.kept_count(model, touched) %}
    union
    {{ _keys_changed(
        plan, inputs.log, _extract_pruning(keeps, touched, plan.wanted_log), touched
    ) }}
    {%- endif %}
{%- endmacro %}

{% macro _keys_changed(plan, log, near, extracts) -%}
    select
        {%- for name in plan.key %}
        changes.{{ name }},
        {%- endfor %}
        extracts.{{ plan.id }} as extract__at
    from (
        select
            {%- for name in plan.key %}
            {{ name }},
            {%- endfor %}
            struct({{ plan.sequence | join(', ') }}) as extract__place
        from {{ log }} as log_changes
        where {{ near }}
    ) as changes
    inner join {{ extracts }} as extracts
        on
            changes.extract__place <= extracts.extract__place
            and (
                extracts.extract__earlier_place is null
                or changes.extract__place > extracts.extract__earlier_place
            )
{%- endmacro %}

{# Which extracts are read, and for which: itself, or the extract behind it (is_earlier). #}
{% macro _extract_reads(plan, touched, changed) -%}
    select
        {{ plan.id }} as extract__id,
        {{ plan.id }} as extract__at,
        false as extract__is_earlier
    from {{ touched }} as touched
    {%- if changed %}
    union
    select
        extract__at as extract__id,
        extract__at,
        false as extract__is_earlier
    from {{ changed }} as changed
    {%- endif %}
    union
    select
        extract__earlier_id as extract__id,
        {{ plan.id }} as extract__at,
        true as extract__is_earlier
    from {{ touched }} as touched
    where extract__earlier_id is not null
{%- endmacro %}

{# Of each extract and key the row that it has, that the extract before it has, and whether the log
   changed the key in between. #}
{% macro _stated_rows(plan, rows, reads, near, changed) -%}
    select
        extract__at,
        {%- for name in plan.key %}
        {{ name }},
        {%- endfor %}
        max(extract__image) filter (where not extract__is_earlier) as extract__row,
        max(extract__image) filter (where extract__is_earlier) as extract__earlier_row,
        coalesce(
            max(extract__image) filter (where not extract__is_earlier)
            > min(extract__image) filter (where not extract__is_earlier),
            false
        ) as extract__has_several,
        bool_or(extract__is_mark) as extract__is_changed
    from (
        select
            reads.extract__at,
            {%- for name in plan.key %}
            extract_rows.{{ name }},
            {%- endfor %}
            struct(extract_rows.{{ plan.images | join(', extract_rows.') }}) as extract__image,
            reads.extract__is_earlier,
            false as extract__is_mark
        from (
            select {{ plan.row_columns | join(', ') }}
            from {{ rows }} as extracted
            where {{ near }}
        ) as extract_rows
        inner join {{ reads }} as reads on reads.extract__id = extract_rows.{{ plan.id }}
        {%- if changed %}
        union all
        select
            extract__at,
            {%- for name in plan.key %}
            {{ name }},
            {%- endfor %}
            null as extract__image,
            false as extract__is_earlier,
            true as extract__is_mark
        from {{ changed }} as changed
        {%- endif %}
    ) as rows_and_marks
    group by extract__at, {{ plan.key | join(', ') }}
{%- endmacro %}

{#
    The newest extract that the table was made of, as a problem, if its declaration has gone: the
    next extract would be compared with an older extract, and what the newest changed would stay.
#}
{% macro _newest_extract_gone(plan, before, complete) -%}
    select
        concat(
            'extract ', string(newest.{{ plan.id }}), ' is the newest that the table was made of ',
            'and is declared no more: declare it again, and land another behind it where it was ',
            'wrong'
        ) as problem
    from (
        select {{ plan.id }}
        from {{ before }} as declared_before
        order by struct({{ plan.sequence | join(', ') }}) desc
        limit 1
    ) as newest
    left anti join {{ complete }} as declared on declared.{{ plan.id }} = newest.{{ plan.id }}
{%- endmacro %}

{# Texts of what keeps extracts from being used: their declarations contradict each other, or those
   that are read haven't the rows that they declare. #}
{% macro _problems_of_extracts(plan, in_order, reads, stated) -%}
    {%- set percent = plan.most_removed_percent -%}
    select concat('extract ', string({{ plan.id }}), ' is declared in ', count(*), ' ways')
    from {{ in_order }} as in_order
    group by {{ plan.id }}
    having count(*) > 1
    union all
    select
        concat(
            'extracts ', string(min({{ plan.id }})), ' and ', string(max({{ plan.id }})),
            ' have one place'
        )
    from {{ in_order }} as in_order
    group by extract__place
    having min({{ plan.id }}) <> max({{ plan.id }})
    union all
    select problem
    from (
        select
            case
                when {{ plan.declared_columns | join(' is null or ') }} is null
                    then concat(
                        'a declaration of extract ', coalesce(string({{ plan.id }}), 'null'),
                        ' has a null'
                    )
                {%- if plan.time %}
                when {{ plan.time }} < extract__earlier_time
                    then concat(
                        'extract ', string({{ plan.id }}), ' is dated before extract ',
                        string(extract__earlier_id), ', behind which it is placed'
                    )
                {%- endif %}
            end as problem
        from {{ in_order }} as in_order
        union all
        select
            case
                when coalesce(counted.row_count, 0) <> in_order.{{ plan.row_count }}
                    then concat(
                        'extract ', string(in_order.{{ plan.id }}), ' is declared with ',
                        in_order.{{ plan.row_count }}, ' rows and has ',
                        coalesce(counted.row_count, 0), ' keys'
                    )
                when
                    in_order.extract__is_touched
                    and coalesce(counted.earlier_count, 0) <> in_order.extract__earlier_count
                    then concat(
                        'extract ', string(in_order.extract__earlier_id), ', with which extract ',
                        string(in_order.{{ plan.id }}), ' is compared, is declared with ',
                        in_order.extract__earlier_count, ' rows and has ',
                        coalesce(counted.earlier_count, 0), ' keys'
                    )
                when counted.several_count > 0
                    then concat(
                        'extract ', string(in_order.{{ plan.id }}), ' has ',
                        counted.several_count, ' keys with rows that differ'
                    )
                {%- if percent is not none %}
                when counted.removed_count * 100 > counted.earlier_count * {{ percent }}
                    then concat(
                        'extract ', string(in_order.{{ plan.id }}), ' removes ',
                        counted.removed_count, ' of ', counted.earlier_count,
                        ' keys, most_removed_percent is {{ percent }}'
                    )
                {%- endif %}
            end as problem
        from {{ in_order }} as in_order
        left semi join {{ reads }} as reads on reads.extract__at = in_order.{{ plan.id }}
        left join (
            select
                extract__at,
                count(extract__row) as row_count,
                count(extract__earlier_row) as earlier_count,
                count_if(extract__has_several) as several_count,
                count_if(extract__row is null and extract__earlier_row is not null)
                    as removed_count
            from {{ stated }} as stated
            group by extract__at
        ) as counted on counted.extract__at = in_order.{{ plan.id }}
    ) as looked_at
    where problem is not null
{%- endmacro %}
