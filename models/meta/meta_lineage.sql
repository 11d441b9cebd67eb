{%- set others = [
    ref('city'),
    ref('dwd_trade__order_event'),
    ref('dwd_traffic__page_view'),
    ref('dwd_traffic__visitor_session'),
    ref('dws_trade__city_product_1d'),
    ref('dws_trade__order_5m'),
    ref('dws_trade__user_coupon_1d'),
    ref('dws_trade__user_status_1d'),
    ref('dws_trade__user_status_1m'),
    ref('dws_trade__user_status_1y'),
    ref('dws_traffic__page_view_5m'),
    ref('meta_message_block'),
    ref('meta_order_chain_break'),
    ref('meta_order_chain_link'),
] -%}
{%- set folded = [
    runs_of(ref('dim_order_history_zip')),
    runs_of(ref('dim_product_price_bizip')),
    runs_of(ref('dim_product_price_zip')),
    runs_of(ref('dim_user_account_zip')),
    runs_of(ref('dim_user_customer_zip')),
    runs_of(ref('dim_user_profile_zip')),
    runs_of(ref('dwd_trade__coupon_wide')),
    runs_of(ref('dwd_trade__order_coupon')),
    runs_of(ref('dwd_trade__order_customer')),
    runs_of(ref('dwd_trade__order_detail')),
    runs_of(ref('dwd_trade__order_price')),
    runs_of(ref('dwd_trade__order_user_index')),
    runs_of(ref('dwd_trade__order_wide')),
    runs_of(ref('dwd_user__booking_class')),
    runs_of(ref('dwd_user__class_booking_wide')),
    runs_of(ref('dwd_user__class_session_wide')),
    runs_of(ref('meta_topic_hour')),
] -%}
{%- set tables = [ref('ods_binlog')] + typed_models() + folded + others -%}

with

commits as (
    {{ commits_of(tables) }}
),

inputs as (
    select
        relation_name as table_name,
        snapshot_id,
        parent_id,
        committed_at,
        operation,
        summary,
        map_filter(
            summary, (property, setting) -> property like 'dbt.input.%'
        ) as input_snapshots
    from commits
),

lineage as (
    select
        inputs.table_name,
        inputs.snapshot_id,
        inputs.parent_id,
        inputs.committed_at,
        inputs.operation,
        inputs.summary['dbt.run'] as run_id,
        inputs.summary['dbt.model'] as model_id,
        inputs.summary['dbt.code'] as code_version,
        cast(coalesce(inputs.summary['added-records'], '0') as bigint) as rows_added,
        cast(
            coalesce(inputs.summary['deleted-records'], '0') as bigint
        ) as rows_removed,
        substr(pairs.input_key, length('dbt.input.') + 1) as input_table,
        cast(pairs.input_value as bigint) as input_snapshot_id
    from inputs
        lateral view outer
        explode(inputs.input_snapshots) pairs as input_key, input_value
)

select * from lineage
