{#
    What changed in a relation, for a consumer that can only append: the kept side (+I, +U) of the
    changes, without the rows that they take back.

        changes    +I 1 a   -U 1 a   +U 1 b   -D 4 d
        stream     +I 1 a            +U 1 b

    Two lines are a model:

        {{ config(materialized='incremental', incremental_strategy='append') }}
        {{ append_stream(rows=ref('x'), key='user_id', columns=['order_count']) }}

    A key's last row (by change_number, or `sequence`) is what it is now, as long as no key goes:
    of a key that leaves or changes nothing is emitted. Where that happens take
    upsert_stream. What the relation may be, how each change comes once, and the cost: see there;
    but of a stream of retract rows a late change is emitted too, since it is a row of its own.
#}
{% macro append_stream(rows, key, columns, sequence=none) -%}
    {{- _streamed({
        'form': 'append_stream',
        'rows': rows,
        'key': key,
        'columns': columns,
        'sequence': sequence,
    }) -}}
{%- endmacro %}
