{#
    Links of the chain of a table's row images: each change takes the row that it found and leaves
    the row that it made, and `nothing` (before an insert, after a delete) is an image like any
    other. Each link is a row: two for a change, four for a change of the key.

    A link lies in the partition (`part`) of its image's own date, or of its key's block where the
    image has none. Only the image shows which, so the change that left it and the change that took
    it lie together, whenever they came and whatever day they count for.
#}
{% macro chain_links(chain, from_cte) -%}
    {%- set chain = adapter.declarations.chain_plan(chain) -%}
    {%- set keys = chain.key_columns -%}
    {%- set exact -%}
        map('timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'ignoreNullFields', 'false')
    {%- endset -%}
    {%- set block = "concat('key ', " ~ chain.key_block ~ ')' -%}
    select
        {{ keys | join(',\n        ') }},
        image_digest,
        altered_values,
        is_left,
        sign,
        binlog_file_number,
        binlog_position,
        row_number,
        part
    from (
        select
            {%- for column in keys %}
            sides.{{ column }},
            {%- endfor %}
            case
                when sides.image is not null
                    then md5(to_json({{ _logged_image(chain, 'sides.image') }}, {{ exact }}))
            end as image_digest,
            {%- if chain.altered_columns %}
            array(
                {%- for column in chain.altered_columns %}
                cast(sides.image.{{ column }} as string){{ ',' if not loop.last }}
                {%- endfor %}
            ) as altered_values,
            {%- else %}
            cast(array() as array<string>) as altered_values,
            {%- endif %}
            sides.is_left,
            sides.sign,
            sides.binlog_file_number,
            sides.binlog_position,
            sides.row_number,
            {%- if chain.date_column %}
            coalesce(
                cast(cast(sides.image.{{ chain.date_column }} as date) as string), {{ block }}
            ) as part
            {%- else %}
            {{ block }} as part
            {%- endif %}
        from (
            select
                {%- for column in keys %}
                steps.{{ column }},
                {%- endfor %}
                side.is_left,
                side.image,
                steps.sign,
                steps.binlog_file_number,
                steps.binlog_position,
                steps.row_number
            from (
                {{ _chain_steps(chain, from_cte) }}
            ) as steps
            lateral view
                explode(
                    array(
                        named_struct('is_left', false, 'image', steps.found),
                        named_struct('is_left', true, 'image', steps.made)
                    )
                ) exploded as side
        ) as sides
    ) as links
{%- endmacro %}

{#
    What changes did to keys: one row per change and key that it touched, two where it changed the
    key. `found` is the row before it, `made` the row after it; null where there was none.

    The delete that a TRUNCATE or its like amounts to may be taken back, by an insert of row number
    -1 (python_udfs/ingestion/whole_table). That is the delete again, with sign -1.
#}
{% macro _chain_steps(chain, from_cte) -%}
    {%- set old_key, new_key = [], [] -%}
    {%- for column in chain.key_columns -%}
        {%- do old_key.append(from_cte ~ '.before.' ~ column) -%}
        {%- do new_key.append(from_cte ~ '.' ~ column) -%}
    {%- endfor -%}
    {%- set taken_back = from_cte ~ ".op_type = 'insert' and " ~ from_cte ~ '.row_number < 0' -%}
    select
        {%- for column in chain.key_columns %}
        case
            when part_of_change = 'end' and {{ from_cte }}.op_type <> 'insert'
                then {{ from_cte }}.before.{{ column }}
            else {{ from_cte }}.{{ column }}
        end as {{ column }},
        {%- endfor %}
        case
            when {{ taken_back }} then {{ _chain_image(chain, from_cte) }}
            when part_of_change <> 'begin' then {{ _chain_image(chain, from_cte ~ '.before') }}
        end as found,
        case
            when part_of_change <> 'end' then {{ _chain_image(chain, from_cte) }}
        end as made,
        if({{ taken_back }}, 'delete', {{ from_cte }}.op_type) as op_type,
        if({{ taken_back }}, -1, 1) as sign,
        {{ from_cte }}.binlog_file_number,
        {{ from_cte }}.binlog_position,
        if({{ taken_back }}, 0, {{ from_cte }}.row_number) as row_number,
        {{ from_cte }}.cut_date
    from {{ from_cte }}
    lateral view
        explode(
            case
                when {{ taken_back }} then array('end')
                when {{ from_cte }}.op_type = 'insert' then array('begin')
                when {{ from_cte }}.op_type = 'delete' then array('end')
                when struct({{ old_key | join(', ') }}) <=> struct({{ new_key | join(', ') }})
                    then array('go on')
                else array('end', 'begin')
            end
        ) parts as part_of_change
{%- endmacro %}

{# A row image as a struct that compares: the map in it doesn't, its sorted entries do. #}
{% macro _chain_image(chain, image) -%}
    struct(
        {%- for column in chain.image_columns -%}
            {{ image }}.{{ column }} as {{ column }},{{ ' ' }}
        {%- endfor -%}
        array_sort(map_entries({{ image }}.raw_values)) as raw_values
    )
{%- endmacro %}

{# The part of an image from _chain_image that every message of the log holds. #}
{% macro _logged_image(chain, image) -%}
    struct(
        {%- for column in chain.image_columns if column not in chain.altered_columns -%}
            {{ image }}.{{ column }} as {{ column }},{{ ' ' }}
        {%- endfor -%}
        {{ image }}.raw_values as raw_values
    )
{%- endmacro %}
