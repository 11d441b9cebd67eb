{#
    Each left row with the current right row of its key, whenever that came: the right side
    has one current row per key (a folded model, a table that is merged into).

        right   bronze -------> silver               customer 77, as rows come
        left    order 1         order 2
        joined  1 silver, 2 silver                   temporal_join: 1 bronze, 2 silver

    A right row that changes touches all left rows of its key: they are rewritten, however old
    they are, in the run that brings it. Where that is too much, or the facts shall keep what was
    true at their time, take temporal_join. A late row of the right side that its table folds away
    is no change.

    Cost: see repaired_join; a change of a row costs all left rows of its key.
#}
{% macro latest_join(left, right, on, kind='inner', condition=none) -%}
    {{- _joined({
        'form': 'latest_join',
        'left': left,
        'right': right,
        'on': on,
        'kind': kind,
        'condition': condition,
    }) -}}
{%- endmacro %}
