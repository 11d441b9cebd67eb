{#
    What each model, seed and snapshot of a run read and wrote, and how many messages were refused.
    Error text when their share exceeds `reject_threshold` and their number is at least
    `reject_least`, else none.
#}
{% macro report_run(results) %}
    {% if not execute or flags.WHICH not in ['run', 'build'] or adapter.java_ended() %}
        {% do return(none) %}
    {% endif %}
    {% set built = [] %}
    {% set kinds = ['model', 'seed', 'snapshot'] %}
    {% for result in results if result.node.resource_type in kinds %}
        {% do built.append(result) %}
    {% endfor %}
    {% if built %}
        {% do _print_models(built) %}
        {% do _report_late_data(built) %}
        {% do _report_tests(results) %}
        {% set problem = _judge_rejects(built) %}
        {% if not adapter.cut_runs.is_empty_run() %}
            {% do report_earlier_refusals() %}
        {% endif %}
        {% do return(problem) %}
    {% endif %}
    {% do return(none) %}
{% endmacro %}

{% macro _print_models(built) %}
    {% set line = '%-38s %14s %14s %9s' %}
    {# `make run` leaves out the models that it has shown, see tools/screen.py #}
    {% do print('') %}
    {% do print(line | format('model', 'rows read', 'rows written', 'seconds')) %}
    {% set written = namespace(rows=0, failed=0) %}
    {% for result in built %}
        {% set response = result.adapter_response %}
        {% set batches = adapter.batches.rows_of_batches(result.node.unique_id) %}
        {% set is_table = 'rows_affected' in response or batches is not none %}
        {% set added = response.get('rows_affected') or batches or 0 %}
        {% set rows_read = response.get('code', '') if is_table else '' %}
        {% if result.status != 'success' %}
            {% set written.failed = written.failed + 1 %}
        {% endif %}
        {% do print(line | format(
            result.node.name,
            '{:,}'.format(rows_read | int) if rows_read else '-',
            '{:,}'.format(added) if is_table else result.status
                if result.status != 'success' else 'view',
            '%.1f' | format(result.execution_time),
        )) %}
        {% set written.rows = written.rows + added %}
    {% endfor %}
    {% set is_empty_run = adapter.cut_runs.is_empty_run() %}
    {% if not written.rows and not written.failed and not is_empty_run %}
        {% do print('Nothing new has landed: no row was added.') %}
    {% endif %}
    {% do print('') %}
{% endmacro %}

{#
    How many data tests ran and which warned; columns that the log carries and no model takes, by
    name, so that a green run shows what it didn't look at.
#}
{% macro _report_tests(results) %}
    {% set tests, warned, failed = [], [], [] %}
    {% for result in results if result.node.resource_type == 'test' %}
        {% do tests.append(result.status | string) %}
        {% if result.status == 'fail' and result.failures %}
            {% do failed.append(result) %}
        {% elif result.status == 'warn' %}
            {% do warned.append(result.node.name) %}
            {% if (result.node.test_metadata or {}).name == 'takes_all_columns' %}
                {% do _report_undeclared_columns(result.node) %}
            {% endif %}
        {% endif %}
    {% endfor %}
    {% if not tests %}
        {% do print(
            'No data test ran: dbt build runs them with the models, dbt test by themselves.'
        ) %}
    {% else %}
        {% set line = '%d data tests: %d passed, %d warned%s, %d failed or skipped.' %}
        {% do print(line | format(
            tests | length,
            tests | select('eq', 'pass') | list | length,
            warned | length,
            ' (' ~ warned | join(', ') ~ ')' if warned else '',
            tests | reject('in', ['pass', 'warn']) | list | length,
        )) %}
        {% do _report_failing_rows(failed) %}
    {% endif %}
{% endmacro %}

{# The first rows that failed tests found, as JSON that a screen can show. #}
{% macro _report_failing_rows(failed) %}
    {% for result in failed[:5] %}
        {% do print(
            '%s failed with %s, the first:'
            | format(result.node.name, _counted_rows(result.failures))
        ) %}
        {% set asked %}
            select
                left(
                    regexp_replace(
                        to_json(struct(*), map('ignoreNullFields', 'false')),
                        '[\\p{Cntrl}]',
                        ' '
                    ),
                    300
                ) as found_row
            from (
                {{ result.node.compiled_code }}
            ) as found
            limit 3
        {% endset %}
        {% for row in run_query(asked).rows %}
            {% do print('  ' ~ row[0]) %}
        {% endfor %}
    {% endfor %}
    {% if failed | length > 5 %}
        {% do print('%d more tests failed.' | format(failed | length - 5)) %}
    {% endif %}
{% endmacro %}

{% macro _counted_rows(number) -%}
    {%- do return('1 row' if number == 1 else '{:,} rows'.format(number)) -%}
{%- endmacro %}

{#
    Columns of the newest messages that no model takes. What was found is kept beside the log with
    the snapshot and the query: while both stay, a run without news reads none of these messages.
#}
{% macro _report_undeclared_columns(test) %}
    {% set key = 'warehouse.undeclared-columns' %}
    {% set node = graph.nodes[test.attached_node] %}
    {% set log = adapter.get_relation(
        database=none, schema=node.schema, identifier=node.alias
    ) %}
    {% set mark = [adapter.commits.head(log), local_md5(test.compiled_code)] %}
    {% set text = adapter.commits.note_of(log, key) %}
    {% set kept = fromjson(text, {}) if text else {} %}
    {% if kept.get('mark') != mark %}
        {% set found = [] %}
        {% for row in run_query(
            'select topic, database_name, table_name, column_name, message_count '
            ~ 'from (' ~ test.compiled_code ~ ') '
            ~ 'order by message_count desc, topic, table_name, column_name limit 10'
        ).rows %}
            {% set messages = '{:,}'.format(row[4]) %}
            {% do found.append([row[3], row[1], row[2], messages, row[0]]) %}
        {% endfor %}
        {% do kept.update({'mark': mark, 'columns': found}) %}
        {% do adapter.commits.keep_note(log, key, tojson(kept)) %}
    {% endif %}
    {% for column in kept.columns %}
        {% do print(
            'Column %s of %s.%s stands in %s messages of %s and is declared in no model: its '
            'values are in ods_binlog alone.' | format(*column)
        ) %}
    {% endfor %}
{% endmacro %}

{# The reasons for which most messages of a run were refused, without what came. #}
{% macro _report_reasons(relation) %}
    {% set asked %}
        select
            topic,
            {{ _reason_in_short() }} as reason,
            count(*) as messages
        from {{ _refused_of_run(relation) }}
        group by topic, reason
        order by messages desc, topic, reason
        limit 3
    {% endset %}
    {% for row in run_query(asked).rows %}
        {% do print('%s of %s: %s' | format('{:,}'.format(row[2]), row[0], row[1])) %}
    {% endfor %}
{% endmacro %}

{# reject_reason without what came. The value between ` = ` and ` is ` goes. It is
   found by its place: a pattern would look for ` is ` again behind each ` = ` of the
   data. #}
{% macro _reason_in_short() -%}
    {%- set behind -%}
        substring(reject_reason, instr(reject_reason, ' = ') + 3)
    {%- endset -%}
    left(regexp_replace(
        case
            when instr(reject_reason, ' = ') > 0 and instr({{ behind }}, ' is ') > 0
                then concat(
                    substring_index(reject_reason, ' = ', 1),
                    ' = .. is ',
                    substring_index({{ behind }}, ' is ', -1)
                )
            else reject_reason
        end,
        '[\\p{Cntrl}]',
        ' '
    ), 160)
{%- endmacro %}

{# Topics of which no message of this run could be read: their format may be another. #}
{% macro _report_unread_topics(relation) %}
    {% for row in run_query(
        'select topic, format, count(*) as messages from '
        ~ adapter.commits.rows_of_run(relation)
        ~ ' group by topic, format having count(*) = count(reject_reason) '
        ~ 'order by messages desc, topic limit 10'
    ).rows %}
        {% do print(
            'Topic %s is read as %s, and none of its %s messages in this run could be read: if it '
            'is written in another format, state that as `format` of the tables that name it as '
            '`topic`, or in the var topic_formats, and run again.'
            | format(row[0], row[1], '{:,}'.format(row[2]))
        ) %}
    {% endfor %}
{% endmacro %}

{# Changes of this run that are of days behind the open window; they count too. #}
{% macro _report_late_data(built) %}
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
    {%
        set counts = namespace(
            messages=0, rejected=0, where=[], undeclared=0, unread=''
        )
    %}
    {% for result in built if result.status == 'success' %}
        {% set name = result.node.name %}
        {% set rows_added = result.adapter_response.get('rows_affected') %}
        {% if name.startswith('ods_') and rows_added %}
            {% set relation = api.Relation.create(
                schema=result.node.schema, identifier=result.node.alias
            ) %}
            {% set row = _counted_of_run(relation, name) %}
            {% set counts.undeclared = counts.undeclared + row[2] %}
            {% set counts.unread = counts.unread or row[3] %}
            {% set counts.messages = [counts.messages, row[0]] | max %}
            {% set counts.rejected = counts.rejected + row[1] %}
            {% if row[1] %}
                {% do counts.where.append(row[1] ~ ' by ' ~ name) %}
                {% do _report_reasons(relation) %}
                {% if name == 'ods_binlog' %}
                    {% do _report_unread_topics(relation) %}
                {% endif %}
            {% endif %}
        {% endif %}
    {% endfor %}
    {% if counts.unread %}
        {% do print(
            'Messages came of the batches ' ~ counts.unread ~ ', which the var `batches` does '
            ~ "not name: they are in ods_binlog, and no typed table reads them."
        ) %}
    {% endif %}
    {% if counts.undeclared %}
        {% do print(
            '%s changes are of tables that no ODS model takes; see meta_undeclared_table.\n'
            | format('{:,}'.format(counts.undeclared))
        ) %}
    {% endif %}
    {% if counts.rejected %}
        {% set share = counts.rejected / counts.messages %}
        {% set text = (
            '%d of %d messages were refused (%.2f %%): %s. They are in meta_quarantine with their '
            ~ 'reasons.'
        ) | format(counts.rejected, counts.messages, 100 * share, counts.where | join(', ')) %}
        {% set is_much = share > var('reject_threshold') | float %}
        {% if is_much and counts.rejected >= var('reject_least') %}
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

{#
    Messages of this run in an ODS table, those refused, and of ods_binlog what no model reads. A
    commit that corrects changes rewrites files of older rows: it records itself what it added, and
    only the refused rows, which are few, are compared with those before.
#}
{% macro _counted_of_run(relation, name) %}
    {% if adapter.commits.run_only_added(relation) %}
        {% do return(run_query(
            'select count(*), count(reject_reason)'
            ~ (_undeclared_count() if name == 'ods_binlog' else ", 0 as undeclared, '' as unread")
            ~ ' from ' ~ adapter.commits.rows_of_run(relation)
        ).rows[0]) %}
    {% endif %}
    {% do return(run_query(
        'select brought + refused, refused, 0 as undeclared, \'\' as unread from '
        ~ '(select count(*) as refused from ' ~ _refused_of_run(relation) ~ ') cross join '
        ~ '(select coalesce(sum(aggregate(map_values(from_json('
        ~ "summary['ods.changes_by_day'], 'map<string, bigint>')), 0L, (one, two) -> one + two)), "
        ~ '0) as brought from ' ~ relation ~ ".snapshots where summary['dbt.run'] = '"
        ~ invocation_id ~ "')"
    ).rows[0]) %}
{% endmacro %}

{% macro _refused_of_run(relation) %}
    {% do return(adapter.commits.rows_of_run(
        relation,
        'unique_key' if relation.identifier != 'ods_binlog' else none,
        'reject_reason is not null',
    )) %}
{% endmacro %}

{% macro _undeclared_count() %}
    {% do return(
        ", count_if(op in ('insert', 'update', 'delete') and not (" ~ is_declared_table()
        ~ ')) as undeclared'
        ~ ", array_join(sort_array(collect_set(batch_id) filter (where not ("
        ~ is_read_batch() ~ "))), ', ') as unread"
    ) %}
{% endmacro %}
