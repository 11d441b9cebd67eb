{#
    Runs at the end of every command that writes: publishes a version where everything passed, lets
    the stores that PUBLISH_TARGETS names hold the newest one, and lets others write. With a
    `problem` it fails and reports it; by then everything is saved, but not published.
#}
{% macro end_run(results, problem=none) %}
    {% if not execute or flags.WHICH not in writing_commands() %}
        {% do return('') %}
    {% endif %}
    {% set ended = adapter.java_ended() %}
    {% if ended %}
        {# whatever asks Spark would fail, and dbt would report that a key interrupted the run #}
        {% do return('-- the run failed: ' ~ ended) %}
    {% endif %}
    {% if adapter.cut_runs.is_empty_run() %}
        {% for line in adapter.cut_runs.lines_about_empty_run(results) %}
            {% do print(line) %}
        {% endfor %}
    {% elif not problem and flags.WHICH == 'build' and var('publish_versions', true) %}
        {% do _report_version(
            adapter.versions.publish(
                results, context, var('hold_back', false), var('allow_behind', false)
            )
        ) %}
        {% set stores = adapter.publications.publish_after_build(context) %}
        {% for line in stores.lines %}
            {% do print(line) %}
        {% endfor %}
        {% set problem = stores.problem %}
    {% endif %}
    {% do adapter.writer.give_back_lease(results) %}
    {% do adapter.data_tests.end() %}
    {% for line in (
        adapter.cut_runs.lines_about_unread(results)
        + adapter.batches.lines_about_gaps(results)
    ) %}
        {% do exceptions.warn(line) %}
    {% endfor %}
    {% if problem %}
        {% do return('-- the run failed: ' ~ problem) %}
    {% endif %}
    {% do return('') %}
{% endmacro %}

{% macro _report_version(published) %}
    {% set proved = adapter.data_tests.proved_tests() %}
    {% if proved %}
        {% do print(
            '%d data tests had passed or warned on these very rows and were not run again '
            '(--vars "test_again: true" runs them).' | format(proved)
        ) %}
    {% endif %}
    {% set narrowed = adapter.data_tests.narrowed_tests() %}
    {% if narrowed %}
        {% do print(
            '%d data tests had passed before and read the rows alone that were touched since '
            '(--vars "test_again: true" lets them read all).' | format(narrowed)
        ) %}
    {% endif %}
    {% if published.version %}
        {% do print(
            'Published as version %d: %d tables and views have changed.'
            | format(published.version, published.changed | length)
        ) %}
        {% if published.stale %}
            {% do print(
                'Not built in this run, and made from older rows than the others: %s.'
                | format(published.stale | join(', '))
            ) %}
        {% endif %}
    {% elif published.compared %}
        {% for line in published.compared %}
            {% do print(line) %}
        {% endfor %}
    {% elif published.why %}
        {% do exceptions.warn('Not published: ' ~ published.why ~ '.') %}
    {% endif %}
{% endmacro %}
