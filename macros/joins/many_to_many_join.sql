{#
    Each left row with each right row of its key.

        left    a1  a2                 key A             joined  a1 x, a1 y, a2 x, a2 y
        right   x   y                  key A

    n left and m right rows of a key are n x m pairs. Keys that have more rows on a side than the
    var join_rows_per_key are named in a warning with both counts.

    A row that comes late is joined to all rows of its key in the run that brings it. Cost: see
    repaired_join; a new right row writes a pair for each left row of its key, and reads all right
    rows of that key.
#}
{% macro many_to_many_join(left, right, on, kind='inner', condition=none) -%}
    {{- _joined({
        'form': 'many_to_many_join',
        'left': left,
        'right': right,
        'on': on,
        'kind': kind,
        'condition': condition,
    }) -}}
{%- endmacro %}
