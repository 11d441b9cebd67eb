{#
    The messages of the log, each once: without the refused messages that were read again and taken,
    whose good row stands beside them. Use it as the body of a CTE.

    relation: ods_binlog.
    columns: those to give.
#}
{% macro messages_once(relation, columns) -%}
    {%- set place = ['batch_id', 'topic', 'partition_number', 'message_offset'] -%}
    {%- set refused = 'reject_reason is not null and cut_reason is null' -%}
    select
        {{ columns | join(',\n        ') }}
    from {{ relation }}
    where not ({{ refused }})
    union all
    select
        {{ columns | join(',\n        ') }}
    from (
        select * from {{ relation }}
        where {{ refused }}
    )
    -- the refused rows are few: the good messages are first cut down to those beside them
    left anti join (
        select {{ place | join(', ') }} from {{ relation }}
        left semi join (
            select {{ place | join(', ') }} from {{ relation }}
            where {{ refused }}
        ) using ({{ place | join(', ') }})
        where reject_reason is null
    ) using ({{ place | join(', ') }})
{%- endmacro %}
