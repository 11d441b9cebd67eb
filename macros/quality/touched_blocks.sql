{#
    The blocks of messages whose account a run makes again, for a model that keeps a row per block:
    a message lies in a block of its partition, see `offsets_of_block`. Touched are those

    - of new messages, and of new, corrected or lost rows of the typed tables,
    - of other messages of a change that a typed table lost: it accounted for these too,
    - in which the model counts unaccounted messages: they may have been taken since.

    Returns {
        "all": whether all blocks are made, as in a first build,
        "keeps": whether rows of the blocks may be kept until the model is built,
        "rows": SQL text for a `from`: batch_id, topic, partition_number, offset_block,
        "near": condition on the coordinates of a message, by which Iceberg leaves files out,
    }

    Cost of a run: the coordinates of the new messages and of the typed tables' changes, and of the
    messages of the touched blocks; of the log's other files those that a lost change is in.

    log: ods_binlog. typed: the typed models.
#}
{% macro touched_blocks(log, typed) -%}
    {%- set found = {'all': true, 'keeps': false, 'rows': none, 'near': 'true'} -%}
    {%- if not execute -%}
        {%- do return(found) -%}
    {%- endif -%}
    {%- set changes = _places_of_changes(log, typed) -%}
    {%- if adapter.reading.plan(model).makes_all_rows(is_incremental()) -%}
        {%- do return(found) -%}
    {%- endif -%}
    {%- set keeps = (
        adapter.ranges.writes(flags) and not adapter.reading.nothing_new(model, graph)
    ) -%}
    {%- set near_lost = 'true' -%}
    {%- if keeps -%}
        {%- set changes = adapter.ranges.materialize_once(
            model, 'changed_places', 'select * from ' ~ changes
        ) -%}
        {%- set near_lost = _in_binlog_files(changes, 'lost_file_number') -%}
    {%- endif -%}
    {%- set blocks = _blocks_of_changes(log, changes, near_lost) -%}
    {%- if keeps -%}
        {%- set blocks = adapter.ranges.materialize_once(
            model, 'touched_blocks', 'select * from ' ~ blocks
        ) -%}
        {%- set size = offsets_of_block() -%}
        {%- set offsets = {
            'column': 'message_offset',
            'kind': 'bigint',
            'low': 'offset_block * ' ~ size,
            'high': 'offset_block * ' ~ size ~ ' + ' ~ (size - 1),
        } -%}
        {%- do found.update(
            near=adapter.ranges.pruning_condition(blocks, [offsets]).condition
        ) -%}
    {%- endif -%}
    {%- do found.update(all=false, keeps=keeps, rows=blocks) -%}
    {%- do return(found) -%}
{%- endmacro %}

{# Condition on a row's binlog file: its number is among those that a column of the rows has. #}
{% macro _in_binlog_files(rows, numbers) -%}
    {%- set file = {
        'column': 'binlog_file_number',
        'kind': 'bigint',
        'low': numbers,
        'high': numbers,
        'known': numbers,
    } -%}
    {%- do return(adapter.ranges.pruning_condition(rows, [file]).condition) -%}
{%- endmacro %}

{# Blocks of what changed, and the number of the binlog file of a typed row that was lost. #}
{% macro _places_of_changes(log, typed) -%}
    (
        select
            batch_id,
            topic,
            partition_number,
            message_offset div {{ offsets_of_block() }} as offset_block,
            cast(null as bigint) as lost_file_number
        from {{ new_rows(log) }}
        {%- for typed_model in typed %}
        union
        select
            batch_id,
            topic,
            partition_number,
            message_offset div {{ offsets_of_block() }},
            -- as the log counts: typed tables add the number of the log
            case when row_kind in ('-U', '-D') then binlog_file_number % 10000000000 end
        from {{ new_changes(typed_model) }}
        {%- endfor %}
    )
{%- endmacro %}

{% macro _blocks_of_changes(log, changes, near_lost) -%}
    (
        select
            batch_id,
            topic,
            partition_number,
            offset_block
        from {{ changes }}
        where offset_block is not null
        union
        select
            batch_id,
            topic,
            partition_number,
            offset_block
        from {{ this }}
        where unaccounted <> 0
        union
        select
            read_again.batch_id,
            read_again.topic,
            read_again.partition_number,
            read_again.message_offset div {{ offsets_of_block() }}
        from (
            select * from {{ pinned(log) }} where {{ near_lost }}
        ) as read_again
        left semi join {{ changes }} as lost
            on read_again.binlog_file_number = lost.lost_file_number
    )
{%- endmacro %}

{# A message, or a typed row, lies in a block. #}
{% macro _is_of_block(rows, blocks) -%}
    {{ rows }}.batch_id = {{ blocks }}.batch_id
            and {{ rows }}.topic = {{ blocks }}.topic
            and {{ rows }}.partition_number = {{ blocks }}.partition_number
            and {{ rows }}.message_offset div {{ offsets_of_block() }} = {{ blocks }}.offset_block
{%- endmacro %}
