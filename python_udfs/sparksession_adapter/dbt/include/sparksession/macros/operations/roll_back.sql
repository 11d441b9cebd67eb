{#
    Goes back to a version: readers of the newest version see it again in one commit, then the
    tables are put back to it one by one. The next run goes on from there. Safe to run again.
        dbt run-operation roll_back --args '{version: 3}'
#}
{% macro roll_back(version) %}
    {% for line in adapter.rollback.roll_back(version, context) %}
        {% do print(line) %}
    {% endfor %}
{% endmacro %}
