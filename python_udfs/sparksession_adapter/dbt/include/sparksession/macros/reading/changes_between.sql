{#
    What changed in the relation from one of its snapshots to another, in the form of new_changes.
    Applied to the rows of the older snapshot it gives the rows of the other. For looking at a
    table's past: dbt show --inline "select * from {{ changes_between(ref('x'), 42) }}"
#}
{% macro changes_between(relation, first, last=none, by=none) -%}
    {%- if not execute or relation.is_cte -%}
        {%- do return(relation) -%}
    {%- endif -%}
    {%- do return(
        adapter.changes.changes_between(model, relation, first, last, by, context)
    ) -%}
{%- endmacro %}
