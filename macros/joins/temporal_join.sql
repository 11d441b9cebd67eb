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

    Cost: see repaired_join; a new version reads the facts of its key and time, a new fact the
    versions of its key up to its time. A version that ends earlier or later than it did touches the
    facts between both ends alone, unless valid_to is among the join's columns or in its condition.
#}
{% macro temporal_join(left, right, on, kind='inner', condition=none) -%}
    {{- _joined({
        'form': 'temporal_join',
        'left': left,
        'right': right,
        'on': on,
        'kind': kind,
        'condition': condition,
    }) -}}
{%- endmacro %}
