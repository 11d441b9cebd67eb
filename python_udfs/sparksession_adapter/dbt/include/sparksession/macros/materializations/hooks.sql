{#
    Runs a node's hooks before or after it is built. Spark has no transactions: those that are meant
    to run outside of one (`before_begin`, `after_commit`) run before all others, or after them.
#}
{% macro _run_hooks(hooks, is_before) %}
    {%- do adapter.hook_writes.note_hooks(is_before) -%}
    {%- for hook in hooks | sort(attribute='transaction', reverse=not is_before) -%}
        {%- set hook_sql = render(hook.get('sql')) | trim -%}
        {%- if hook_sql -%}
            {%- if is_before -%}
                {%- do _check_written_table(hook_sql) -%}
                {%- do adapter.hook_writes.check_pre_hook(model, hook_sql) -%}
            {%- endif -%}
            {%- call statement() -%}
                {{ hook_sql }}
            {%- endcall -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do adapter.hook_writes.note_hooks(none) -%}
{% endmacro %}

{# Refuses a statement that writes to the model's own table, where no run has made it yet. #}
{% macro _check_written_table(hook_sql) %}
    {%- set writing = ['insert', 'delete', 'update', 'merge', 'alter', 'truncate'] -%}
    {%- if (
        hook_sql.split()[0] | lower in writing
        and this.render() | lower in hook_sql | lower
        and load_relation(this) is none
    ) -%}
        {%- do exceptions.raise_compiler_error(
            model.name ~ ': its pre_hook writes to ' ~ this ~ ', which its first run has yet to '
            ~ 'make; let the statement stand only where is_incremental() holds, or make it a '
            ~ 'post_hook.'
        ) -%}
    {%- endif -%}
{% endmacro %}
