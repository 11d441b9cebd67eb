{#
    What each model, seed and snapshot of a run read and wrote, and how many messages were refused.
    What is to be said of them when they are more than `reject_threshold`; else none.
#}
{% macro report_run(results) %}
    {% if not execute or flags.WHICH not in ['run', 'build'] %}
        {% do return(none) %}
    {% endif %}
    {% set built = [] %}
    {% set kinds = ['model', 'seed', 'snapshot'] %}
    {% for result in results if result.node.resource_type in kinds %}
        {% do built.append(result) %}
    {% endfor %}
    {% if built %}
        {% do _print_models(built) %}
        {% do _tell_late_data(built) %}
        {% do return(_judge_rejects(built)) %}
    {% endif %}
    {% do return(none) %}
{% endmacro %}

{% macro _print_models(built) %}
    {% set line = '%-38s %14s %14s %9s' %}
    {% do print('') %}
    {% do print(line | format('model', 'rows read', 'rows written', 'seconds')) %}
    {% set written = namespace(rows=0, failed=0) %}
    {% for result in built %}
        {% set response = result.adapter_response %}
        {% set is_table = 'rows_affected' in response %}
        {% set rows_read = response.get('code', '') if is_table else '' %}
        {% if result.status != 'success' %}
            {% set written.failed = written.failed + 1 %}
        {% endif %}
        {% do print(line | format(
            result.node.name,
            '{:,}'.format(rows_read | int) if rows_read else '-',
            '{:,}'.format(response['rows_affected']) if is_table else result.status
                if result.status != 'success' else 'view',
            '%.1f' | format(result.execution_time),
        )) %}
        {% set written.rows = written.rows + (response.get('rows_affected') or 0) %}
    {% endfor %}
    {% if not written.rows and not written.failed %}
        {% do print('Nothing new has landed: no row was added.') %}
    {% endif %}
    {% do print('') %}
{% endmacro %}

{# Changes of this run that are of days behind the open window; they count too. #}
{% macro _tell_late_data(built) %}
    {% set added = namespace(rows=0, view=none) %}
    {% for result in built if result.status == 'success' %}
        {% if result.node.name.startswith('ods_') %}
            {% set added.rows = added.rows
                + (result.adapter_response.get('rows_affected') or 0) %}
        {% elif result.node.name == 'meta_late_data' %}
            {% set added.view = api.Relation.create(
                schema=result.node.schema, identifier=result.node.alias
            ) %}
        {% endif %}
    {% endfor %}
    {% if added.rows and added.view %}
        {% set late = run_query(
            'select sum(change_count), count(distinct cut_date), min(cut_date) from '
            ~ added.view ~ " where run_id = '" ~ invocation_id ~ "'"
        ).rows[0] %}
        {% if late[0] %}
            {% do print(
                '%s changes came late, of %d days behind the open window, the oldest %s. '
                'They are counted; see meta_late_data.\n'
                | format('{:,}'.format(late[0]), late[1], late[2])
            ) %}
        {% endif %}
    {% endif %}
{% endmacro %}

{# Messages and refused messages of this run: the rows that its own commits added. #}
{% macro _judge_rejects(built) %}
    {% set counts = namespace(messages=0, rejected=0, where=[], untaken=0) %}
    {% for result in built if result.status == 'success' %}
        {% set name = result.node.name %}
        {% set rows_added = result.adapter_response.get('rows_affected') %}
        {% if name.startswith('ods_') and rows_added %}
            {% set relation = api.Relation.create(
                schema=result.node.schema, identifier=result.node.alias
            ) %}
            {% set row = run_query(
                'select count(*), count(reject_reason)'
                ~ (_untaken_count() if name == 'ods_binlog' else ', 0')
                ~ ' from ' ~ adapter.rows_of_run(relation)
            ).rows[0] %}
            {% set counts.untaken = counts.untaken + row[2] %}
            {% set counts.messages = [counts.messages, row[0]] | max %}
            {% set counts.rejected = counts.rejected + row[1] %}
            {% if row[1] %}
                {% do counts.where.append(row[1] ~ ' by ' ~ name) %}
            {% endif %}
        {% endif %}
    {% endfor %}
    {% if counts.untaken %}
        {% do print(
            '%s changes are of tables that no ODS model takes; see meta_untaken.\n'
            | format('{:,}'.format(counts.untaken))
        ) %}
    {% endif %}
    {% if counts.rejected %}
        {% set share = counts.rejected / counts.messages %}
        {% set text = (
            '%d of %d messages were refused (%.2f %%): %s. They are in meta_quarantine with their '
            ~ 'reasons.'
        ) | format(counts.rejected, counts.messages, 100 * share, counts.where | join(', ')) %}
        {% if share > var('reject_threshold') | float %}
            {% do return(
                text ~ ' That is above reject_threshold (' ~ var('reject_threshold')
                ~ '). The good rows are built; look at the reasons, then run again or raise the '
                ~ 'threshold.'
            ) %}
        {% endif %}
        {% do exceptions.warn(text) %}
    {% endif %}
    {% do return(none) %}
{% endmacro %}

{% macro _untaken_count() %}
    {% do return(
        ", count_if(op in ('insert', 'update', 'delete') and not (" ~ is_taken_table() ~ "))"
    ) %}
{% endmacro %}
