{#
    Forgets the build that was held back: the tables are put back to the newest version. What came
    in meanwhile is read again by the next run. Safe to run again.
        dbt run-operation drop_candidate
#}
{% macro drop_candidate() %}
    {% for line in adapter.candidates.drop_candidate(context) %}
        {% do print(line) %}
    {% endfor %}
{% endmacro %}
