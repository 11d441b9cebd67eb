{#
    The messages that were refused and still stand so. What was left of a cut file is settled once
    the whole message has come, another message once it was read again and taken. A RENAME whose
    rows weren't all known is settled by a full load that was read well behind it (LOAD_MARGIN of
    python_udfs/ingestion/whole_table).

    log: ods_binlog.
    of_log: whether to give the messages that it refused itself.
    typed: typed models whose refused rows to give.
    offsets: first and last offset of what the log refused, where they are known: files of others
        are left out.
    by_loads: whether a RENAME may be among the typed models' refused rows; only then are the full
        loads of the log read.
#}
{% macro open_refusals(log, of_log, typed, offsets=none, by_loads=true) -%}
    {%- set place = ['batch_id', 'topic', 'partition_number', 'message_offset'] -%}
    {%- if of_log %}
    select
        'ods_binlog' as refused_by,
        unreadable.{{ place | join(',\n        unreadable.') }},
        unreadable.reject_reason,
        unreadable.payload as raw_text,
        unreadable.payload_bytes as raw_bytes,
        unreadable.load_id
    from (select * from {{ log }} where reject_reason is not null) as unreadable
    left anti join (
        select
            {{ place | join(',\n            ') }},
            reject_reason
        from {{ log }}
        where
            cut_reason is null
            {%- if offsets is not none %}
            and message_offset between {{ offsets[0] }} and {{ offsets[1] }}
            {%- endif %}
    ) as whole
        on
            {%- for column in place %}
            {{ 'and ' if not loop.first }}unreadable.{{ column }} = whole.{{ column }}
            {%- endfor %}
            and (unreadable.cut_reason is not null or whole.reject_reason is null)
    {%- endif -%}
    {%- if of_log and typed %}
    union all
    {%- endif -%}
    {%- if typed %}
    select
        unfit.refused_by,
        unfit.{{ place | join(',\n        unfit.') }},
        unfit.reject_reason,
        unfit.reject_payload as raw_text,
        cast(null as binary) as raw_bytes,
        unfit.load_id
    from (
        {%- for typed_model in typed %}
        {%- set declared = declared_source(typed_model.identifier) %}
        select
            '{{ typed_model.identifier }}' as refused_by,
            {{ place | join(',\n            ') }},
            {{ _sql_text(declared.database) }} as database_name,
            {{ _sql_text(declared.table) }} as table_name,
            event_time,
            reject_reason,
            reject_payload,
            load_id
        from {{ typed_model }}
        where reject_reason is not null
        {%- if not loop.last %}
        union all
        {%- endif %}
        {%- endfor %}
    ) as unfit
    {%- if by_loads %}
    left anti join (
        select
            database_name,
            table_name,
            max(event_time) as loaded_until
        from {{ log }}
        where reject_reason is null and op = 'snapshot' and {{ is_read_batch() }}
        group by
            database_name,
            table_name
    ) as loads
        on
            unfit.database_name = loads.database_name
            and unfit.table_name = loads.table_name
            and unfit.reject_reason like '%come with a full load of%'
            and unfit.event_time + interval 1 hour < loads.loaded_until
    {%- endif %}
    {%- endif %}
{%- endmacro %}
