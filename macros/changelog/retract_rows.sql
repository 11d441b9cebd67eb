{#
    Retract rows of a typed ODS table: +I for an insert, -U and +U for an update, -D for a delete,
    each with its sign. No lookup: a change carries its own before image.

    Each input row gives one or two rows. Columns that the query doesn't use are not read.

    With `upsert_by` an update that leaves these columns as they are gives its +U alone: enough for
    whoever keeps the last row of each key, and half the rows.
#}
{% macro retract_rows(from_cte, image_columns, change_columns, upsert_by=[]) -%}
    {%- do adapter.declarations.check_arguments('retract_rows', {
        'from_cte': from_cte,
        'image_columns': image_columns,
        'change_columns': change_columns,
    }) -%}
    select
        {%- for column in image_columns %}
        case
            when sign = 1 then {{ from_cte }}.{{ column }}
            else {{ from_cte }}.before.{{ column }}
        end as {{ column }},
        {%- endfor %}
        case
            when {{ from_cte }}.op_type = 'insert' then '+I'
            when {{ from_cte }}.op_type = 'delete' then '-D'
            when sign = 1 then '+U'
            else '-U'
        end as row_kind,
        sign,
        {%- for column in change_columns %}
        {{ from_cte }}.{{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    from {{ from_cte }}
    lateral view
        explode(
            case {{ from_cte }}.op_type
                when 'insert' then array(1)
                when 'update' then
                    {%- if upsert_by %}
                    if(
                        {%- for column in upsert_by %}
                        {{ 'and ' if not loop.first }}{{ from_cte }}.before.{{ column }}
                        <=> {{ from_cte }}.{{ column }}
                        {%- endfor %},
                        array(1),
                        array(-1, 1)
                    )
                    {%- else %} array(-1, 1)
                    {%- endif %}
                when 'delete' then array(-1)
            end
        ) signs as sign
{%- endmacro %}
