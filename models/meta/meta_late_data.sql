with

commits as (
    {{ commits_of(typed_models()) }}
),

-- a table that was rebuilt restarts: what it holds then is not late
histories as (
    select
        table_name,
        snapshot_id,
        committed_at,
        summary,
        is_standing,
        count_if(parent_id is null) over (
            partition by table_name
            order by committed_at, snapshot_id
        ) as history_number
    from commits
),

-- what a table went back behind comes again, and is no later for that
standing as (
    select *
    from (
        select
            *,
            max(history_number) over (partition by table_name) as newest_number
        from histories
    ) as numbered
    where is_standing or history_number < newest_number
),

-- the commits' own summaries list their days and the rows that each got; one that
-- corrected rows has written others beside them, and notes what it brought
days as (
    select
        standing.table_name,
        standing.history_number,
        standing.snapshot_id,
        standing.committed_at,
        standing.summary['dbt.run'] as run_id,
        try_cast(
            substr(pairs.property, length('partitions.cut_date=') + 1) as date
        ) as cut_date,
        case
            when standing.summary['ods.changes_by_day'] is not null
                then
                    from_json(
                        standing.summary['ods.changes_by_day'],
                        'map<string, bigint>'
                    )[substr(pairs.property, length('partitions.cut_date=') + 1)]
            else
                cast(
                    nullif(
                        regexp_extract(pairs.setting, 'added-records=(\\d+)', 1), ''
                    ) as bigint
                )
        end as change_count
    from standing
        lateral view
        explode(
            map_filter(
                standing.summary,
                (property, setting) -> startswith(property, 'partitions.cut_date=')
            )
        ) pairs as property, setting
),

loads as (
    select
        table_name,
        history_number,
        snapshot_id,
        run_id,
        cut_date,
        change_count,
        committed_at,
        -- a day ahead of the clock is no newest one: all that came later would be late
        max(
            case
                when
                    cut_date <= cast(
                        from_utc_timestamp(
                            committed_at, '{{ var('business_zone') }}'
                        ) as date
                    )
                    then cut_date
            end
        ) over (
            partition by table_name, history_number
            order by unix_micros(committed_at)
            range between unbounded preceding and 1 preceding
        ) as newest_day_before
    from days
    where change_count > 0
),

late as (
    select
        table_name,
        run_id,
        cut_date,
        change_count,
        newest_day_before,
        datediff(newest_day_before, cut_date) as days_behind,
        snapshot_id,
        committed_at
    from loads
    where datediff(newest_day_before, cut_date) >= {{ var('open_window_days') }}
)

select * from late
