{#
    As dbt's own: the rows of a unit test's input, with the columns and types of that input's table.
    Where there is no table yet, such as the tested model's own on the first build (input `this`),
    they are those that YAML declares. Rows of an input may state row_kind and sign too, as what is
    read by new_changes(..) has them.
#}
{% macro get_fixture_sql(rows, column_name_to_data_types) %}
    {%- set relation = defer_relation if defer_relation and not load_relation(this) else this -%}
    {%- set types = column_name_to_data_types or {} -%}
    {%- if not types -%}
        {%- for column in adapter.get_columns_in_relation(relation) -%}
            {%- do types.update({column.name | lower: column.data_type}) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- set types = types or adapter.declarations.declared_columns(this) -%}
    {%- for name, data_type in {'row_kind': 'string', 'sign': 'int'}.items() -%}
        {%- set stated = (rows or []) | selectattr(name, 'defined') | list -%}
        {%- if stated and name not in types and not column_name_to_data_types -%}
            {%- do types.update({name: data_type}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for row in rows or [{}] -%}
        {%- set values = format_row(row, types) -%}
        select
        {%- for name, data_type in types.items() %}
            {{ values.get(name, safe_cast('null', data_type)) }} as {{ adapter.quote(name) }}
            {{- ',' if not loop.last }}
        {%- endfor %}
        {{ ' union all ' if not loop.last }}
    {%- endfor -%}
    {{ ' limit 0' if not rows }}
{% endmacro %}
