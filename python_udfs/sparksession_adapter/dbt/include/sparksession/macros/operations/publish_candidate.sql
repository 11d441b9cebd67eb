{#
    Publishes the build that was held back (`dbt build --vars 'hold_back: true'`) as the next
    version.
        dbt run-operation publish_candidate
#}
{% macro publish_candidate() %}
    {% for line in adapter.candidates.publish_candidate() %}
        {% do print(line) %}
    {% endfor %}
{% endmacro %}
