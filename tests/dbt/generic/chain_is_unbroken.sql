{#
    No break of a chain is open: each change of a key found the row that the change before it had
    left. For a model of chain_breaks, which checked the keys that were touched since it last ran:
    so this reads the open breaks only. Fails with them; the configs severity, warn_if and error_if
    say how many may be open.
#}
{% test chain_is_unbroken(model) %}

with

open_breaks as (
    -- all columns: a test of any model can't name the keys of its table
    select * from {{ model }}
)

select * from open_breaks

{% endtest %}
