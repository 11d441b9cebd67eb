{#
    binlog_file_number of a row of ods_binlog, with the number of its log before it: what
    python_udfs/ingestion/tables/log_resets.py makes of `log_resets`.
#}
{% macro placed_file_number(resets) -%}
    {%- if resets -%}
        binlog_file_number + 10000000000 * case
            {%- for reset in resets | reverse %}
            when {{ _is_of_log(reset) }} then {{ loop.revindex }}
            {%- endfor %}
            else 0
        end
    {%- else -%}
        binlog_file_number
    {%- endif -%}
{%- endmacro %}

{% macro _is_of_log(reset) -%}
    {%- set conditions = [] -%}
    {%- set begun = (
        "event_time >= cast(" ~ _sql_text(reset['from']) ~ " as timestamp)"
        if reset.get('from') else 'false'
    ) -%}
    {%- set partitions = [] -%}
    {%- for topic, offsets in (reset.get('offsets') or {}).items() -%}
        {%- for partition, first in offsets.items() -%}
            {%- do partitions.append(
                "when batch_id = 'live' and topic = " ~ _sql_text(topic)
                ~ " and partition_number = " ~ (partition | int)
                ~ " then message_offset >= " ~ (first | int)
            ) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if partitions -%}
        {%- do conditions.append(
            "case " ~ partitions | join(" ") ~ " else " ~ begun ~ " end"
        ) -%}
    {%- elif reset.get('from') -%}
        {%- do conditions.append(begun) -%}
    {%- endif -%}
    {%- if reset.get('topic') -%}
        {%- set topics = reset['topic'] -%}
        {%- set likes = [] -%}
        {%- for topic in ([topics] if topics is string else topics) -%}
            {%- do likes.append(_is_like(topic)) -%}
        {%- endfor -%}
        {%- do conditions.append("(" ~ likes | join(" or ") ~ ")") -%}
    {%- endif -%}
    {%- for name, field in (('server_id', 'server_id'), ('server_uuid', 'gtid')) -%}
        {%- if reset.get(name) is not none -%}
            {%- set texts = [] -%}
            {%- for path in ('$.', '$.source.', '$.payload.source.') -%}
                {%- do texts.append(
                    "get_json_object(payload, '" ~ path ~ field ~ "')"
                ) -%}
            {%- endfor -%}
            {%- do conditions.append(
                "lower(substring_index(coalesce(" ~ texts | join(", ") ~ "), ':', 1)) = "
                ~ _sql_text((reset[name] | string) | lower)
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {{- conditions | join(" and ") -}}
{%- endmacro %}
