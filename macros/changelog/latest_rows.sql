{#
    The rows that a source table has, from all changes of a typed ODS table: per key the row of the
    highest position, unless that change ended it. A change of the key ends the row of the old key
    and begins one of the new, in this order. Without a key equal rows are counted.

    Reads all changes; the answer doesn't depend on their order or on how they came in.
#}
{% macro latest_rows(from_cte, key_columns, image_columns, change_columns) -%}
    {%- if key_columns -%}
        {{- _latest_by_key(from_cte, key_columns, image_columns, change_columns) -}}
    {%- else -%}
        {{- _latest_by_count(from_cte, image_columns) -}}
    {%- endif -%}
{%- endmacro %}

{% macro _latest_by_key(from_cte, key_columns, image_columns, change_columns) -%}
    {%- set old_key -%}
        struct(
            {%- for column in key_columns -%}
                {{ from_cte }}.before.{{ column }} as {{ column }}{{ ', ' if not loop.last }}
            {%- endfor -%}
        )
    {%- endset -%}
    {%- set new_key -%}
        struct(
            {%- for column in key_columns -%}
                {{ from_cte }}.{{ column }} as {{ column }}{{ ', ' if not loop.last }}
            {%- endfor -%}
        )
    {%- endset -%}
    {%- set ended = "named_struct('row_key', " ~ old_key ~ ", 'is_there', false)" -%}
    {%- set there = "named_struct('row_key', " ~ new_key ~ ", 'is_there', true)" -%}
    select
        {%- for column in image_columns + change_columns %}
        last_of_key.image.{{ column }} as {{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    from (
        select
            max_by(
                struct(
                    step.is_there,
                    struct(
                        {%- for column in image_columns + change_columns %}
                        {{ from_cte }}.{{ column }}{{ ',' if not loop.last }}
                        {%- endfor %}
                    ) as image
                ),
                struct(
                    {{ from_cte }}.binlog_file_number,
                    {{ from_cte }}.binlog_position,
                    {{ from_cte }}.row_number,
                    step.is_there
                )
            ) as last_of_key
        from {{ from_cte }}
        lateral view
            explode(
                case
                    when {{ from_cte }}.op_type = 'insert' then array({{ there }})
                    when {{ from_cte }}.op_type = 'delete' then array({{ ended }})
                    when {{ old_key }} = {{ new_key }} then array({{ there }})
                    else array({{ ended }}, {{ there }})
                end
            ) steps as step
        group by step.row_key
    ) as latest_of_keys
    where last_of_key.is_there
{%- endmacro %}

{% macro _latest_by_count(from_cte, image_columns) -%}
    select
        {%- for column in image_columns %}
        counted.image.{{ column }} as {{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    from (
        select
            step.image as image,
            sum(step.sign) as copies
        from {{ from_cte }}
        lateral view
            explode(
                filter(
                    array(
                        named_struct(
                            'sign', if({{ from_cte }}.op_type = 'insert', 0, -1),
                            'image',
                            struct(
                                {%- for column in image_columns %}
                                {{ from_cte }}.before.{{ column }}{{ ',' if not loop.last }}
                                {%- endfor %}
                            )
                        ),
                        named_struct(
                            'sign', if({{ from_cte }}.op_type = 'delete', 0, 1),
                            'image',
                            struct(
                                {%- for column in image_columns %}
                                {{ from_cte }}.{{ column }}{{ ',' if not loop.last }}
                                {%- endfor %}
                            )
                        )
                    ),
                    step -> step.sign <> 0
                )
            ) steps as step
        group by step.image
    ) as counted
    lateral view explode(sequence(1, counted.copies)) copies as copy_number
    where counted.copies > 0
{%- endmacro %}
