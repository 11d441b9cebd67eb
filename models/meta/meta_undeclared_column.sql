with

undeclared as (
    {{ undeclared_columns(ref('ods_binlog')) }}
)

select * from undeclared
