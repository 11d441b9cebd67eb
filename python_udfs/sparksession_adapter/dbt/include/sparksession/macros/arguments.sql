{#
    An argument of an operation that may be left out: what is taken then, or the argument. Empty it
    may not be. A shell's variable without a value would stand for all tables, or for no tag.
#}
{% macro _may_be_left_out(name, given, otherwise=none) %}
    {%- if given is undefined -%}
        {%- do return(otherwise) -%}
    {%- elif given is none -%}
        {%- do exceptions.raise_compiler_error(
            name ~ ' must have a value, got None: write it down, or leave ' ~ name ~ ' out.'
        ) -%}
    {%- endif -%}
    {%- do return(given) -%}
{% endmacro %}
