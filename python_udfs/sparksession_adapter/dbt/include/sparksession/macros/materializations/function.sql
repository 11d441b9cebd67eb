{# dbt's functions: an Iceberg catalog keeps none, so that no later session would have them. #}
{% materialization function, adapter='sparksession', supported_languages=['sql', 'python'] %}
    {%- do exceptions.raise_compiler_error(
        model.name ~ ': the catalog of this warehouse keeps no functions, so that none can be made '
        ~ 'once for all models; write it as a macro, or let the sql_header of each model that '
        ~ 'calls it have `create temporary function ..;`.'
    ) -%}
{% endmaterialization %}
