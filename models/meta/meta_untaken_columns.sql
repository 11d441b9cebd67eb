with

untaken as (
    {{ untaken_columns(ref('ods_binlog')) }}
)

select * from untaken
