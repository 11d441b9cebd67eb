{#
    Each left row (a fact) with the version that its dimension had at the fact's time:
    valid_from <= time, and time < valid_to or there is no valid_to yet.

        dimension   |--- bronze ---|------ silver ------|--- gold ---->
        fact                  x (10:00)        y (11:00)
        joined                bronze           silver

    The dimension is any model with valid_from and valid_to whose versions of a key don't overlap;
    where they do, a fact has each of them. A version that comes late, or is cut in two by one that
    does, takes over the facts of its time in the run that brings it. A late fact gets the version
    of its own time, not today's.

    as_known_at: of a dimension that holds beliefs (known_from and known_to too, see beliefs) the
    version that was known at a time: at the time in a column of the left row, 'create_time', so
    that a fact has what could be known of its time by then; or at a moment, '2026-03-02 16:00:00'
    (UTC), so that all facts have what was known then. What was known doesn't change by what comes
    later, so nor do the pairs of facts that are there.

        dimension   |------- bronze, known from 10:00 to 12:00 ------->
                    |- bronze -|- silver: both known from 12:00 ------>
        fact                        y (11:00)
        as_known_at '11:30'         bronze
        as_known_at '12:30'         silver

    Cost: see repaired_join; a new version reads the facts of its key and time, a new fact the
    versions of its key up to its time. A version that ends earlier or later than it did touches the
    facts between both ends alone, unless valid_to is among the join's columns or in its condition.
#}
{% macro temporal_join(left, right, on, kind='inner', condition=none, as_known_at=none) -%}
    {{- _joined({
        'form': 'temporal_join',
        'left': left,
        'right': right,
        'on': on,
        'kind': kind,
        'condition': condition,
        'as_known_at': as_known_at,
    }) -}}
{%- endmacro %}

{#
    What the changed right rows match by, old and new. Of a version that only ends at another time
    it is the time between both ends: the facts before have it as they had. So a new price touches
    the orders behind it, not all since the price before.
#}
{% macro _touching_rows(join, changed) -%}
    {%- if join.ends_by is none -%}
    select distinct {{ join.right.matched_by | join(', ') }}
    from {{ changed }} as changed
    {%- else -%}
    {%- set begin, end = join.ends_by -%}
    {%- set of_key = 'partition by ' ~ join.right.key | join(', ') -%}
    {%- set other_columns = join.right.uses | reject('equalto', end) | join(', ') -%}
    {%- set values_read = 'struct(' ~ other_columns ~ ')' -%}
    select distinct
        {%- for column in join.right.matched_by %}
        {% if column == begin -%}
            if(join__ends, join__first_end, {{ begin }}) as {{ begin }}
        {%- elif column == end -%}
            if(join__ends, if(join__is_open, null, join__last_end), {{ end }}) as {{ end }}
        {%- else -%}
            {{ column }}
        {%- endif -%}
        {{- ',' if not loop.last }}
        {%- endfor %}
    from (
        select
            *,
            count_if(sign < 0) over ({{ of_key }}) = 1
            and count_if(sign > 0) over ({{ of_key }}) = 1
            and min({{ values_read }}) over ({{ of_key }})
            <=> max({{ values_read }}) over ({{ of_key }}) as join__ends,
            bool_or({{ end }} is null) over ({{ of_key }}) as join__is_open,
            min({{ end }}) over ({{ of_key }}) as join__first_end,
            max({{ end }}) over ({{ of_key }}) as join__last_end
        from {{ changed }} as changed
    ) as changed
    {%- endif -%}
{%- endmacro %}
