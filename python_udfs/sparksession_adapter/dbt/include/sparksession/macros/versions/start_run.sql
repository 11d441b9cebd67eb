{#
    Runs before every command that writes: it becomes the warehouse's one writer, or fails and
    states who is. What a dead run left behind is put in order. What models declare is looked at
    before anything is done: dbt did it when it had parsed them, but not with --no-write-json.
#}
{% macro start_run() %}
    {% if not execute or flags.WHICH not in writing_commands() %}
        {% do return('') %}
    {% endif %}
    {% if var('as_of_version', none) is not none %}
        {% do exceptions.raise_compiler_error(
            'as_of_version reads a version, it builds nothing. Take it with dbt show, dbt test or '
            ~ 'dbt compile; dbt run-operation roll_back goes back to a version.'
        ) %}
    {% endif %}
    {% do adapter.declarations.check_declarations() %}
    {% for line in adapter.declarations.mixed_times() %}
        {% do exceptions.warn(line) %}
    {% endfor %}
    {% for line in adapter.cut_runs.check_flags(selected_resources) %}
        {% do log(line, info=true) %}
    {% endfor %}
    {% set note = adapter.writer.take_lease() %}
    {% if note %}
        {% do log(note, info=true) %}
    {% endif %}
    {% if not var('hold_back', false) %}
        {% do adapter.candidates.check_none_waits() %}
    {% endif %}
    {% do return('') %}
{% endmacro %}
