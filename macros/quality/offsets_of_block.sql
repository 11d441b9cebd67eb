{#
    How many offsets of a partition are one block, a row of meta_message_block. A run reads the
    blocks again that it touches: a few thousand messages cost little. The rows stay few: 365
    thousand for 7.3 billion messages.
#}
{% macro offsets_of_block() -%}
    {%- do return(20000) -%}
{%- endmacro %}
