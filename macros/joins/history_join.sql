{#
    Each left row (a fact) with the facts of its key that happened before it, or at its time, but no
    longer before than `expiry`: left time - expiry < right time <= left time.

        right   03-01   03-05        03-20            expiry '30 days'
        left                                04-02
        joined  no      03-05        03-20

    Without `expiry` all that happened before is joined: where it can't be known how long a fact
    counts. Then a key with a long history has a pair for each two of its facts, a late right row
    touches all left rows of its key behind it, and a run reads the right side's whole past of the
    touched keys. Declare an expiry where there is one.

    A right row that comes late is joined to the left rows that are there already, in the run that
    brings it, also where it is older than what had expired when they came: the bounds are those of
    the rows' own times, not of when they came.

    A table may be joined to itself: `condition` then keeps a row from being its own partner,
    'right_row.order_id <> left_row.order_id'.

    Cost: see repaired_join; with an expiry the times within it of what is new.
#}
{% macro history_join(left, right, on, expiry=none, kind='inner', condition=none) -%}
    {{- _joined({
        'form': 'history_join',
        'left': left,
        'right': right,
        'on': on,
        'kind': kind,
        'condition': condition,
        'expiry': expiry,
    }) -}}
{%- endmacro %}
