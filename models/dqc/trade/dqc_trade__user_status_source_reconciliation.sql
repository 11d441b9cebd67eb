{{
    config(
        tags=['source', 'source_reconciliation'],
    )
}}

{%- set at_source = ref('dqc_trade__user_status_at_source') -%}

with

dws_trade__user_status_td as (
    select
        user_id,
        biz_status,
        order_count,
        amount_sum
    from {{ pinned(ref('dws_trade__user_status_td')) }}
),

dqc_trade__user_status_at_source as (
    select
        user_id,
        biz_status,
        order_count,
        amount_sum
    from {{ pinned(at_source) }}
),

-- what came behind the place in the log that the source's answer is of
dwd_trade__order_changelog as (
    select
        user_id,
        biz_status,
        amount,
        sign
    from
        {{
            as_read_by(
                ref('dwd_trade__order_changelog'),
                reader=ref('dws_trade__user_status_1d'),
            )
        }}
    where {{ is_behind_source(at_source) }}
),

ods_binlog as (
    select
        batch_id,
        topic,
        partition_number,
        message_offset,
        event_time,
        payload,
        binlog_file_number,
        binlog_position
    from {{ as_read_by(ref('ods_binlog'), reader=ref('ods_shop__order_info')) }}
),

log_end as (
    {{ source_is_reached(at_source, from_cte='ods_binlog') }}
),

totals_as_of_source as (
    select
        user_id,
        biz_status,
        order_count,
        amount_sum
    from dws_trade__user_status_td
    union all
    select
        user_id,
        biz_status,
        -sign as order_count,
        -sign * amount as amount_sum
    from dwd_trade__order_changelog
),

both_answers as (
    {{
        compared(
            count=user_status(),
            got='totals_as_of_source',
            expected='dqc_trade__user_status_at_source',
            level='sums',
        )
    }}
),

differing as (
    {{
        reconciliation(
            count=user_status(),
            from_cte='both_answers',
            level='sums',
            reached_cte='log_end',
        )
    }}
)

select * from differing
