{#
    Each left row with the one right row of its key, which many may have.

        left    coupon 1 (order 7)   coupon 2 (order 7)   coupon 3 (order 8)
        right   order 7
        joined  1 7                  2 7                  3 null             kind left

    That the right side is unique by `on` is its own to keep. Where it isn't nothing is guessed: a
    left row has a pair with each, identified by the right key. The test `unique` of the left key of
    this model finds it.

    A row that comes late is joined, or takes the place of what it replaces, in the run that brings
    it. Cost: see repaired_join; a right row that changes touches all left rows of its key.
#}
{% macro many_to_one_join(left, right, on, kind='inner', condition=none) -%}
    {{- _joined({
        'form': 'many_to_one_join',
        'left': left,
        'right': right,
        'on': on,
        'kind': kind,
        'condition': condition,
    }) -}}
{%- endmacro %}
