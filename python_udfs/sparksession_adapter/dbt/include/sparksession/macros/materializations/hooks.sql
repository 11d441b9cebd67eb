{#
    Runs a node's hooks before or after it is built. Spark has no transactions: those that are meant
    to run outside of one (`before_begin`, `after_commit`) run before all others, or after them.
#}
{% macro _run_hooks(hooks, is_before) %}
    {%- for hook in hooks | sort(attribute='transaction', reverse=not is_before) -%}
        {%- set hook_sql = render(hook.get('sql')) | trim -%}
        {%- if hook_sql -%}
            {%- call statement() -%}
                {{ hook_sql }}
            {%- endcall -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}
