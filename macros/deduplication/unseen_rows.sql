{#
    The rows of an append stream whose key the model doesn't have yet, each key once: of several
    that come at once the first by order_by, which has to be a total order.

        {{ config(materialized='incremental', incremental_strategy='append') }}
        {{ unseen_rows(
            rows=new_rows(ref('ods_view')), key='view_id', order_by=['partition', 'offset'],
            filter='dwd_view_seen', same=['view_time'],
        ) }}

    `filter` is the name of a model of key_filter over this model. It is built behind it, so this
    one names it as a text; while it isn't there, or isn't of this model's rows, all keys that come
    are looked up. A filter only spares work: keys that it doesn't know are new for sure, all
    others are looked up in the model itself. So no row is lost to a false positive, and none comes
    twice where the filter lags behind, since rows that it hasn't seen are read too.

    `same` are columns which a copy of a row shares with the row, such as its time: with the key
    they give the ranges of the files that are opened for a look-up. A null in the key is
    a value like any other.

    Late data: a row counts whenever it comes, and once. The model has to hold all of them: a row
    that its query leaves out, but by its key, is refused, since a copy would be taken for new.

    Cost of a run: the new rows; the filter, at 1.8 bytes for each key expected (rate 0.001); the
    model's own files in which the keys lie that may be there. A stream without copies reads none,
    but for false positives. Without a filter the model's own files in the ranges of all that came.
    The run reports how many keys came, were looked up and were there, and so does its commit
    (deduplication.came, .looked_up, .were_there).
#}
{% macro unseen_rows(rows, key, order_by, filter=none, same=[]) -%}
    {%- if execute -%}
        {%- set keys = [key] if key is string else key -%}
        {%- set orders = [order_by] if order_by is string else order_by -%}
        {%- set others = [same] if same is string else same -%}
        {%- set batch -%}
        (
            select first_row.*
            from (
                select min_by(struct(came.*), struct({{ orders | join(', ') }})) as first_row
                from {{ rows }} as came
                group by {{ keys | join(', ') }}
            ) as first_rows
        )
        {%- endset -%}
        {%- set unseen -%}
            {%- if rows.is_cte or not is_incremental() -%}
    select * from {{ batch }} as batch
            {%- elif (
                not adapter.ranges.writes(flags) or adapter.reading.nothing_new(model, graph)
            ) -%}
    select batch.*
    from {{ batch }} as batch
    left anti join {{ this }} as held on {{ _same_keys(keys, 'held', 'batch') }}
            {%- else -%}
                {{- _looked_up(keys, others, batch, adapter.key_filters.key_filter_of(
                    model, filter, keys, graph
                )) -}}
            {%- endif -%}
        {%- endset -%}
    select * from {{ adapter.key_filters.unseen(model, keys, unseen) }} as unseen
    {%- endif -%}
{%- endmacro %}

{% macro _looked_up(keys, others, batch, filter) -%}
    {%- set batch = (
        adapter.ranges.materialize_once(model, 'batch', 'select * from ' ~ batch)
    ) -%}
    {%- set identity = (keys + others) | unique | join(', ') -%}
    {%- set suspects = batch -%}
    {%- if filter -%}
        {%- set sql = _suspects(keys, identity, batch, filter) -%}
        {%- set suspects = adapter.ranges.materialize_once(model, 'suspects', sql) -%}
    {%- endif -%}
    {%- set near = adapter.ranges.pruning_condition(
        suspects, adapter.key_filters.near_values(this, (keys + others) | unique | list)
    ) -%}
    {%- set seen_sql -%}
        select {{ keys | join(', ') }}
        from {{ suspects }} as suspects
        left semi join (
            select {{ keys | join(', ') }}
            from {{ this }}
            where {{ near.condition }}
        ) as held on {{ _same_keys(keys, 'held', 'suspects') }}
    {%- endset -%}
    {%- set seen = adapter.ranges.materialize_once(model, 'seen', seen_sql) -%}
    {%- do log(
        adapter.key_filters.tell_duplicates(model, {
            'came': adapter.ranges.kept_count(model, batch),
            'looked_up': near.row_count,
            'were_there': adapter.ranges.kept_count(model, seen),
        }),
        info=true,
    ) -%}
    select batch.*
    from {{ batch }} as batch
    left anti join {{ seen }} as seen on {{ _same_keys(keys, 'seen', 'batch') }}
{%- endmacro %}

{# The rows whose keys may be there: all bits are set, or the filter hasn't seen them yet. #}
{% macro _suspects(keys, identity, batch, filter) -%}
    select distinct {{ identity }}
    from (
        select {{ identity }}
        from (
            select
                {{ identity }},
                {{ filter.shape.block }} as filter__block,
                array({{ filter.shape.places | join(', ') }}) as filter__places
            from {{ batch }} as batch
        ) as placed
        left semi join {{ filter.bitmaps }} as bitmaps
            on
                bitmaps.block_number = placed.filter__block
                {%- for number in range(filter.shape.hashes) %}
                {%- set place = 'placed.filter__places[' ~ number ~ ']' %}
                and getbit(
                    cast(
                        conv(
                            hex(substring(bitmaps.bits, cast({{ place }} div 8 as int) + 1, 1)),
                            16,
                            10
                        ) as int
                    ),
                    cast({{ place }} % 8 as int)
                ) = 1
                {%- endfor %}
        {%- if filter.behind %}
        union all
        select {{ identity }}
        from {{ batch }} as batch
        left semi join {{ filter.behind }} as behind
            on {{ _same_keys(keys, 'behind', 'batch') }}
        {%- endif %}
    ) as suspects
{%- endmacro %}

{# Both sides have the same key; null equals null. #}
{% macro _same_keys(keys, left, right) -%}
    {%- for name in keys -%}
        {{ left }}.{{ name }} <=> {{ right }}.{{ name }}{{ ' and ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}
