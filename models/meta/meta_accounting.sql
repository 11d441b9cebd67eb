with

accounting as (
    select
        batch_id,
        topic,
        partition_number,
        sum(messages_in) as messages_in,
        sum(applied) as applied,
        sum(duplicates) as duplicates,
        sum(filtered) as filtered,
        sum(rejected) as rejected,
        sum(unaccounted) as unaccounted
    from {{ ref('meta_message_block') }}
    group by
        batch_id,
        topic,
        partition_number
)

select * from accounting
