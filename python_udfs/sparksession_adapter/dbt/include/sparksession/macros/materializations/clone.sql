{#
    A view of what the state has, whatever its kind: a table without commits of its own would be
    read again from its first row on. Models that are built read the original behind the view, and
    what is built under the clone's own name takes its place. See Warehouse.original_of.
#}
{% materialization clone, adapter='sparksession' %}
    {%- set existing_relation = load_cached_relation(this) -%}
    {%- set target_relation = this.incorporate(type='view') -%}

    {%- if not defer_relation or load_cached_relation(defer_relation) is none -%}
        {{ log('The state has nothing of ' ~ model.unique_id ~ '.', info=True) }}
        {{ return({'relations': []}) }}
    {%- elif this.render() == defer_relation.render() -%}
        {{ log(this ~ ' is what the state has: skipping clone for relation ' ~ this, info=True) }}
        {{ return({'relations': []}) }}
    {%- elif existing_relation is not none and not flags.FULL_REFRESH -%}
        {{ log(existing_relation ~ ' is there already.', info=True) }}
        {{ return({'relations': []}) }}
    {%- elif _has_rows_of_its_own(existing_relation) -%}
        {%- do exceptions.raise_compiler_error(
            'dbt clone --full-refresh would put a view of ' ~ defer_relation ~ ' in the place of '
            ~ 'the table ' ~ this ~ ' and drop its rows: nothing was done. Drop the table, or clone '
            ~ 'into another schema.'
        ) -%}
    {%- endif -%}

    {%- call statement('main') -%}
        create or replace view {{ this }} as
        {{ clone_of(defer_relation) }}
    {%- endcall -%}
    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}

{# The query of a clone. No other view has its comment. #}
{% macro clone_of(relation) -%}
    select /* clone */ * from {{ relation }}
{%- endmacro %}

{% macro _has_rows_of_its_own(relation) %}
    {%- if relation is none or relation.type == 'table' -%}
        {%- do return(relation is not none) -%}
    {%- endif -%}
    {%- do return(load_cached_relation(_runs_relation(relation)) is not none) -%}
{% endmacro %}

{# The relation that is there; a clone, which holds nothing, is dropped for what comes in its place. #}
{% macro _without_clone(relation) %}
    {%- if adapter.reading.is_clone(relation) -%}
        {%- do adapter.drop_relation(relation) -%}
        {%- do return(none) -%}
    {%- endif -%}
    {%- do return(relation) -%}
{% endmacro %}
