{#
    Each left row with the one right row of its key, which no other left row has.

        left    order 1    order 2                   each order has one address, if any
        right   address a             address c
        joined  1 a        2 null                    kind left

    That both sides are unique by `on` is theirs to keep. Where they aren't nothing is guessed: each
    pair stays, identified by both keys. The tests `unique` of the left key and of the right key of
    this model find it.

    A row that comes late is joined, or takes the place of what it replaces, in the run that brings
    it. Cost: see repaired_join.
#}
{% macro one_to_one_join(left, right, on, kind='inner', condition=none) -%}
    {{- _joined({
        'form': 'one_to_one_join',
        'left': left,
        'right': right,
        'on': on,
        'kind': kind,
        'condition': condition,
    }) -}}
{%- endmacro %}
