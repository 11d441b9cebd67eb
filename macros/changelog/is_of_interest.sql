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
    {%- for name in _columns_of_interest(table_model, count) -%}
        {%- do names.append(_sql_text(name)) -%}
    {%- endfor -%}
    (
        metadata_changes is null
        or arrays_overlap(metadata_changes, array({{ names | join(', ') }}))
    )
{%- endmacro %}

{# columns_of_interest of a typed model, as its YAML has them. #}
{% macro _columns_of_interest(table_model, count) -%}
    {%- if not execute -%}
        {%- do return([]) -%}
    {%- endif -%}
    {%- set declared = (
        adapter.declarations.source_of(table_model).get('columns_of_interest')
    ) -%}
    {%- if not declared -%}
        {%- do exceptions.raise_compiler_error(
            'is_of_interest: ' ~ table_model ~ ' must be a typed model whose meta.source has '
            ~ 'columns_of_interest. Example: columns_of_interest: [user_id, amount]'
        ) -%}
    {%- endif -%}
    {%- set lacking = _counted_columns(count) | reject('in', declared) | list if count else [] -%}
    {%- if lacking -%}
        {%- do exceptions.raise_compiler_error(
            'is_of_interest: the count goes by ' ~ lacking | join(', ') ~ ', which the '
            ~ 'columns_of_interest of ' ~ table_model ~ ' lack: changes of it would not be counted.'
        ) -%}
    {%- endif -%}
    {%- do return(declared) -%}
{%- endmacro %}

{# Columns that decide a count's rows and values; see _checked_count. #}
{% macro _counted_columns(count) -%}
    {%- set names = _checked_count(count).dimensions | list -%}
    {%- for measure in count.measures.values() if measure.get('column') -%}
        {%- do names.append(measure.column) -%}
    {%- endfor -%}
    {%- do return(names | unique | list) -%}
{%- endmacro %}
