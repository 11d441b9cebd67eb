{#
    Condition on the rows of a changelog: the change touches one of these columns. An insert and a
    delete always do, and so does an update of which the log doesn't tell what it changed. The -U
    and +U of any other update are equal in all of them, so that what is counted by them stays as
    it is.
#}
{% macro is_of_interest(columns) -%}
    {%- set names = [] -%}
    {%- for name in ([columns] if columns is string else columns) -%}
        {%- do names.append(_sql_text(name)) -%}
    {%- endfor -%}
    (
        metadata_changes is null
        or arrays_overlap(metadata_changes, array({{ names | join(', ') }}))
    )
{%- endmacro %}
