{#
    Names the messages that earlier runs refused and that still stand in meta_quarantine, by topic,
    with their number and the most frequent reason.

    What was found is kept beside ods_binlog with the snapshots that it was found in. So a run asks
    only the tables that have changed since, and without news none of them. Of a table to which it
    added no refused row, and none at the place of one, it reads its own rows alone.
#}
{% macro report_earlier_refusals() %}
    {% set tables = _tables_that_refuse() %}
    {% if 'ods_binlog' not in tables %}
        {% do return(none) %}
    {% endif %}
    {% set log = tables['ods_binlog'] %}
    {% set key = 'warehouse.open-refusals' %}
    {% set text = adapter.commits.note_of(log, key) %}
    {% set kept = fromjson(text, {}) if text else {} %}
    {% set known = kept.get('tables', {}) if kept.get('batches') == var('batches') else {} %}
    {% set log_head = adapter.commits.head(log) %}
    {% set now, changed = {}, {} %}
    {% for name, relation in tables.items() %}
        {% set head = adapter.commits.head(relation) %}
        {% set before = known.get(name, {}) %}
        {% if before.get('at') == head and before.get('log', log_head) == log_head %}
            {% do now.update({name: before}) %}
        {% else %}
            {% do now.update({name: {'at': head, 'open': []}}) %}
            {% do changed.update({name: relation}) %}
        {% endif %}
    {% endfor %}
    {% set of_run = {} %}
    {% if changed %}
        {% set refused = _refused_rows(changed) %}
        {% for name, relation in changed.items() | list %}
            {% set before = known.get(name, {}) %}
            {% if _stands_as_before(name, relation, before, refused[name]) %}
                {% do before.update({'at': now[name].at}) %}
                {% do now.update({name: before}) %}
                {% do changed.pop(name) %}
            {% else %}
                {% do now[name].update({'refused': refused[name]}) %}
            {% endif %}
        {% endfor %}
        {% do _find_open_refusals(log, log_head, changed, now, of_run) %}
        {% do adapter.commits.keep_note(
            log, key, tojson({'batches': var('batches'), 'tables': now})
        ) %}
    {% endif %}
    {% do _name_open_refusals(now, of_run) %}
{% endmacro %}

{# Name -> relation of ods_binlog and of the typed models, as far as the warehouse has them. #}
{% macro _tables_that_refuse() %}
    {% set tables = {} %}
    {% for node in graph.nodes.values() if node.resource_type == 'model' %}
        {% if node.name == 'ods_binlog' or node.config.get('meta', {}).get('source') %}
            {% set relation = adapter.get_relation(
                database=none, schema=node.schema, identifier=node.alias
            ) %}
            {% if relation is not none %}
                {% do tables.update({node.name: relation}) %}
            {% endif %}
        {% endif %}
    {% endfor %}
    {% do return(tables) %}
{% endmacro %}

{# Name -> refused rows of changed tables. Iceberg answers it from the metrics of its files. #}
{% macro _refused_rows(changed) %}
    {% set counts, found = [], {} %}
    {% for name, relation in changed.items() %}
        {% do counts.append(
            "select '" ~ name ~ "' as name, count(reject_reason) as refused from " ~ relation
        ) %}
    {% endfor %}
    {% for row in run_query(counts | join(' union all ')).rows %}
        {% do found.update({row[0]: row[1] | int}) %}
    {% endfor %}
    {% do return(found) %}
{% endmacro %}

{#
    Whether all that changed since `before` are rows that this run added, none of them refused, and
    of the log none at or before the last refused message of its partition: what was refused there
    may have been read again.
#}
{% macro _stands_as_before(name, relation, before, refused) %}
    {% if (
        before.get('refused') != refused
        or 'log' in before
        or before.at != adapter.commits.head_before_run(relation)
        or not adapter.commits.run_only_added(relation)
    ) %}
        {% do return(false) %}
    {% endif %}
    {% if name == 'ods_binlog' and refused %}
        {% set last = before.get('last', {}) %}
        {% for row in run_query(
            'select ' ~ _partition_key() ~ ' as place, min(message_offset) from '
            ~ adapter.commits.rows_of_run(relation) ~ ' group by place'
        ).rows if row[0] in last and row[1] <= last[row[0]] %}
            {% do return(false) %}
        {% endfor %}
    {% endif %}
    {% do return(true) %}
{% endmacro %}

{% macro _partition_key() -%}
    concat_ws('/', batch_id, topic, partition_number)
{%- endmacro %}

{#
    Finds the open refusals of changed tables.

    changed: name -> relation.
    now: name -> {at, refused, open}; `open` gets [topic, messages, reason, messages of this
        reason], `log` the snapshot of the log where its full loads settle some of them, and `last`
        the last refused offset of each partition of the log.
    of_run: `name topic` -> the same of what earlier runs refused, where this run refused some too.
#}
{% macro _find_open_refusals(log, log_head, changed, now, of_run) %}
    {% set found, typed = {}, [] %}
    {% for name, relation in changed.items() if now[name].refused %}
        {% do found.update({name: relation}) %}
    {% endfor %}
    {% if not found %}
        {% do return(none) %}
    {% endif %}
    {% set asked = [] %}
    {% for name, relation in found.items() %}
        {% do asked.append(
            "select '" ~ name ~ "' as name, min(message_offset) as first_offset, "
            ~ 'max(message_offset) as last_offset, '
            ~ "count_if(reject_reason like '%come with a full load of%') as by_loads from "
            ~ relation ~ ' where reject_reason is not null'
        ) %}
        {% if name != 'ods_binlog' %}
            {% do typed.append(relation) %}
        {% endif %}
    {% endfor %}
    {% set bounds = namespace(offsets=none, by_loads=false) %}
    {% for row in run_query(asked | join(' union all ')).rows %}
        {% if row[0] == 'ods_binlog' %}
            {% set bounds.offsets = [row[1], row[2]] %}
        {% elif row[3] %}
            {% set bounds.by_loads = true %}
            {% do now[row[0]].update({'log': log_head}) %}
        {% endif %}
    {% endfor %}
    {% if 'ods_binlog' in found %}
        {% set last = {} %}
        {% for row in run_query(
            'select ' ~ _partition_key() ~ ' as place, max(message_offset) from ' ~ log
            ~ ' where reject_reason is not null group by place'
        ).rows %}
            {% do last.update({row[0]: row[1] | int}) %}
        {% endfor %}
        {% do now['ods_binlog'].update({'last': last}) %}
    {% endif %}
    {% set query %}
        with refused as (
            {{ open_refusals(
                log,
                of_log='ods_binlog' in found,
                typed=typed,
                offsets=bounds.offsets,
                by_loads=bounds.by_loads,
            ) }}
        ),
        reasons as (
            select
                refused_by,
                topic,
                {{ _reason_in_short() }} as reason,
                count(*) as messages,
                count_if(load_id <> '{{ invocation_id }}') as earlier
            from refused
            group by refused_by, topic, reason
        )
        select
            refused_by,
            topic,
            sum(messages) as messages,
            max_by(reason, struct(messages, reason)) as reason,
            max(messages) as of_reason,
            sum(earlier) as earlier,
            max_by(reason, struct(earlier, reason)) as earlier_reason,
            max(earlier) as earlier_of_reason
        from reasons
        group by refused_by, topic
    {% endset %}
    {% for row in run_query(query).rows %}
        {% set name = row[0] %}
        {% do now[name]['open'].append([row[1], row[2] | int, row[3], row[4] | int]) %}
        {% if row[5] != row[2] %}
            {% set refused = [row[1], row[5] | int, row[6], row[7] | int] %}
            {% do of_run.update({name ~ ' ' ~ row[1]: refused}) %}
        {% endif %}
    {% endfor %}
{% endmacro %}

{# Prints them, those of most messages first. #}
{% macro _name_open_refusals(now, of_run) %}
    {% set topics, shown = {}, 5 %}
    {% for name, found in now.items() %}
        {% for one in found.open %}
            {% set topic, messages, reason, most = of_run.get(name ~ ' ' ~ one[0], one) %}
            {% set before = topics.get(topic, {'messages': 0, 'reason': '', 'most': 0}) %}
            {% set is_most = most > before.most %}
            {% do topics.update({topic: {
                'topic': topic,
                'messages': before.messages + messages,
                'reason': reason if is_most else before.reason,
                'most': most if is_most else before.most,
            }}) %}
        {% endfor %}
    {% endfor %}
    {% set named = topics.values() | selectattr('messages') | sort(attribute='topic') | list %}
    {% set named = named | sort(attribute='messages', reverse=true) | list %}
    {% for one in named[:shown] %}
        {% do print(
            '%s messages of %s that earlier runs refused still stand in meta_quarantine, %s of '
            'them: %s' | format(
                '{:,}'.format(one.messages), one.topic, '{:,}'.format(one.most), one.reason
            )
        ) %}
    {% endfor %}
    {% if named | length > shown %}
        {% do print('So do %s messages of %d other topics.' | format(
            '{:,}'.format(named[shown:] | sum(attribute='messages')), named[shown:] | length
        )) %}
    {% endif %}
{% endmacro %}
