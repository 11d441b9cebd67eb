{#
    Open breaks of a chain: changes that didn't find what the change before them, of the same key,
    had left. Breaks of suspects are found from all changes of the key; those of other keys are
    those of the last run. The first run, and a run whose inputs were rewritten, checks all keys.
#}
{% macro chain_breaks(chain, from_cte, suspects) -%}
    {%- set chain = adapter.declarations.chain_plan(chain) -%}
    {%- set keys = chain.key_columns -%}
    {%- set names = keys | join(', ') -%}
    {%- set place = ['binlog_file_number', 'binlog_position', 'row_number'] -%}
    {%- set change = ['op_type'] + place + ['cut_date'] -%}
    {%- set checks_all_keys = _checks_all_keys() -%}
    with

    {#- few keys, mostly none: with none the table isn't read at all #}
    steps_of_suspects as (
        select{{ ' /*+ broadcast(' ~ suspects ~ ') */' if not checks_all_keys }}
            {{ names }},
            found,
            made,
            sign,
            {{ change | join(',\n            ') }}
        from (
            {{ _chain_steps(chain, from_cte) }}
        ) as steps
        {%- if not checks_all_keys %}
        left semi join {{ suspects }}
            on {{ _is_same_key(keys, 'steps', suspects) }}
        {%- endif %}
    ),

    netted_steps as (
        select
            {{ names }},
            found,
            made,
            {{ change | join(',\n            ') }}
        from steps_of_suspects
        group by
            {{ names }},
            found,
            made,
            {{ change | join(',\n            ') }}
        having sum(sign) > 0
    ),

    steps_with_previous as (
        select
            {{ names }},
            found,
            {{ change | join(',\n            ') }},
            lag(struct(made, {{ change | join(', ') }})) over (
                partition by {{ names }}
                order by {{ place | join(', ') }}, made is not null
            ) as previous
        from netted_steps
    ),

    steps_with_differences as (
        select
            *,
            case
                when found is not null and previous.made is not null
                    then {{ _chain_differences(chain, 'previous.made', 'found') }}
            end as differences
        from steps_with_previous
    ),

    judged_steps as (
        select
            *,
            case
                when found is null and previous.made is not null
                    then 'insert_on_existing'
                when found is not null and previous is null
                    then concat(op_type, '_of_unknown')
                when found is not null and previous.made is null
                    then concat(op_type, '_of_deleted')
                when cardinality(differences) > 0 then 'image_differs'
            end as kind
        from steps_with_differences
    )

    select
        {{ names }},
        kind,
        map_keys(differences) as differing_columns,
        to_json(differences, map('ignoreNullFields', 'false')) as differences,
        {%- for column in change %}
        previous.{{ column }} as previous_{{ column }},
        {%- endfor %}
        {{ change | join(',\n        ') }}
    from judged_steps
    where kind is not null
    {%- if not checks_all_keys %}
    union all
    select /*+ broadcast({{ suspects }}) */
        {{ names }},
        kind,
        differing_columns,
        differences,
        previous_{{ change | join(',\n        previous_') }},
        {{ change | join(',\n        ') }}
    from {{ this }} as open_breaks
    left anti join {{ suspects }}
        on {{ _is_same_key(keys, 'open_breaks', suspects) }}
    {%- endif %}
{%- endmacro %}

{% macro _is_same_key(keys, left, right) -%}
    {%- for column in keys -%}
        {{ left }}.{{ column }} <=> {{ right }}.{{ column }}{{ ' and ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}

{#
    Map of the columns that differ: name -> what was left, what was found, as texts. What a column's
    type can't hold stands in raw_values.
#}
{% macro _chain_differences(chain, left, found) -%}
    {%- set left_raw = 'map_from_entries(' ~ left ~ '.raw_values)' -%}
    {%- set found_raw = 'map_from_entries(' ~ found ~ '.raw_values)' -%}
    map_from_entries(
        filter(
            array(
                {%- for column in chain.image_columns %}
                {%- set left_value, found_value = left ~ '.' ~ column, found ~ '.' ~ column %}
                {%- set left_text = left_raw ~ "['" ~ column ~ "']" %}
                {%- set found_text = found_raw ~ "['" ~ column ~ "']" %}
                if(
                    {% if column in chain.altered_columns -%}
                    {#- null is no difference here: the column wasn't there -#}
                    coalesce({{ left_value }} = {{ found_value }}, true),
                    {%- else -%}
                    {{ left_value }} <=> {{ found_value }}
                    and (
                        {{ left }}.raw_values <=> {{ found }}.raw_values
                        or {{ left_text }} <=> {{ found_text }}
                    ),
                    {%- endif %}
                    null,
                    named_struct(
                        'key', '{{ column }}',
                        'value', named_struct(
                            'left', coalesce(cast({{ left_value }} as string), {{ left_text }}),
                            'found', coalesce(cast({{ found_value }} as string), {{ found_text }})
                        )
                    )
                ){{ ',' if not loop.last }}
                {%- endfor %}
            ),
            difference -> difference is not null
        )
    )
{%- endmacro %}
