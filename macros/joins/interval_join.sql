{#
    Each left row with the right rows of its key whose time lies within bounds of its own:
    left time + lower <= right time <= left time + upper.

        left   10:00 --------[=====|=====]-------->      lower '-5 minutes', upper '5 minutes'
        right          09:54    09:57   10:05   10:06
                        no       pair    pair     no

    A row that comes late, on either side, gets its partners, and gives up those of what it
    replaces, in the run that brings it, however old it is: nothing expires. A row without a time
    has no partner.

    Cost: see repaired_join; of both sides the times that may match are read, no others.
#}
{% macro interval_join(left, right, on, lower, upper, kind='inner', condition=none) -%}
    {{- _joined({
        'form': 'interval_join',
        'left': left,
        'right': right,
        'on': on,
        'kind': kind,
        'condition': condition,
        'lower': lower,
        'upper': upper,
    }) -}}
{%- endmacro %}
