{#
    Condition on the rows of a changelog: the change touches one of the columns_of_interest of the
    typed table, which stand in its YAML and nowhere else. An insert and a delete always do, and so
    does an update whose changed columns the log doesn't name. The -U and +U of any other update
    are equal in all of them, so that what is counted by them stays as it is.

    With `count` the columns that it counts by have to be among them: else changes that it goes by
    would be left out.
#}
{% macro is_of_interest(table_model, count=none) -%}
    {%- set names = [] -%}
    {%- if execute -%}
        {%- set counted = _counted_columns(count) if count else [] -%}
        {%- for name in adapter.declarations.columns_of_interest(table_model, counted) -%}
            {%- do names.append(_sql_text(name)) -%}
        {%- endfor -%}
    {%- endif -%}
    (
        metadata_changes is null
        or arrays_overlap(metadata_changes, array({{ names | join(', ') }}))
    )
{%- endmacro %}

{# Columns that decide a count's rows and values; see _checked_count. #}
{% macro _counted_columns(count) -%}
    {%- set names = _checked_count(count).dimensions | list -%}
    {%- for measure in count.measures.values() if measure.get('column') -%}
        {%- do names.append(measure.column) -%}
    {%- endfor -%}
    {%- do return(names | unique | list) -%}
{%- endmacro %}
