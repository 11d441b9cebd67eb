{#
    Columns that messages of declared tables carry and no ODS model takes: one row per topic, table
    and column, with the number of messages. Documents of a format without a schema are left out:
    what isn't declared of them is kept in the typed rows.

    relation: ods_binlog, or some of its rows as a subquery. Each payload is parsed once.
#}
{% macro undeclared_columns(relation) -%}
    select
        named.topic,
        named.format,
        named.database_name,
        named.table_name,
        named.column_name,
        count(*) as message_count,
        max(named.event_time) as last_event_time
    from (
        select
            topic,
            format,
            database_name,
            table_name,
            event_time,
            explode(
                json_object_keys(
                    case format
                        when 'maxwell' then get_json_object(payload, '$.data')
                        when 'events' then payload
                        when 'canal' then get_json_object(payload, '$.data[0]')
                        when 'debezium'
                            then coalesce(
                                get_json_object(payload, '$.after'),
                                get_json_object(payload, '$.before'),
                                get_json_object(payload, '$.payload.after'),
                                get_json_object(payload, '$.payload.before')
                            )
                    end
                )
            ) as column_name
        from {{ relation }}
        where
            reject_reason is null
            and op in ('insert', 'update', 'delete', 'snapshot')
            and ({{ is_declared_table() }})
    ) as named
    where not ({{ _is_taken_column() }})
    group by
        named.topic,
        named.format,
        named.database_name,
        named.table_name,
        named.column_name
{%- endmacro %}

{% macro _is_taken_column() -%}
    {%- set conditions = [] -%}
    {%- for source in adapter.declarations.declared_sources(graph) -%}
        {%- set names = [] -%}
        {#- case counts in PostgreSQL's names, whose tables name their schema -#}
        {%- set is_exact = source.get('format') in ['mongodb', 'events']
            or (source.get('format') == 'debezium' and '.' in source.table) -%}
        {%- set column = 'column_name' if is_exact else 'lower(column_name)' -%}
        {%- for name in source.columns -%}
            {%- do names.append(_sql_text(name if is_exact else name | lower)) -%}
        {%- endfor -%}
        {%- for aliases in (source.get('aliases') or {}).values() -%}
            {%- for name in ([aliases] if aliases is string else aliases) -%}
                {%- do names.append(_sql_text(name if is_exact else name | lower)) -%}
            {%- endfor -%}
        {%- endfor -%}
        {%- do conditions.append(
            '(database_name = ' ~ _sql_text(source.database) ~ ' and table_name = '
            ~ _sql_text(source.table) ~ ' and ' ~ column ~ ' in (' ~ names | join(', ') ~ '))'
        ) -%}
    {%- endfor -%}
    {{- conditions | sort | join(' or ') if conditions else 'false' -}}
{%- endmacro %}
