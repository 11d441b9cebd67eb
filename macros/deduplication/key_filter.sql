{#
    A Bloom filter of the keys that an append stream holds, for unseen_rows to ask. A model of it is

        {{ config(materialized='folded', unique_key='block_number',
            fold={'aggregates': {'bits': 'bitmap_or'}}) }}
        {{ key_filter(rows=ref('x'), key='event_id', expected_keys=100000000) }}

    Each key sets some bits of one block (a bitmap of 32,768 bits, 4 KB), chosen by its hash. So a
    filter of 100 million keys and a rate of 0.001 has 10 bits a key in 14.4 bits of space: 180 MB,
    whatever the keys look like. With more keys than expected the rate grows: twice as many make
    about 0.06 of it; declare more then, and run it with --full-refresh.

    Late or repeated keys set the bits that are set. A run costs the new keys of the relation: it
    adds the blocks that they are in, mostly empty bitmaps which compress well, and the folded
    table's merges keep their number small.
#}
{% macro key_filter(rows, key, expected_keys, false_positive_rate=0.001) -%}
    {%- if execute -%}
        {%- set shape = adapter.key_filters.declared_filter(
            model, rows, key, expected_keys, false_positive_rate, is_incremental()
        ) -%}
    select
        block_number,
        bitmap_construct_agg(place) as bits
    from (
        select
            {{ shape.block }} as block_number,
            array({{ shape.places | join(', ') }}) as places
        from {{ new_rows(rows) }}
    ) as placed_keys
    lateral view explode(places) each_place as place
    group by block_number
    {%- endif -%}
{%- endmacro %}
