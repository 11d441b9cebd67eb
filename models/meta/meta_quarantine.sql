with

refused as (
    {{ open_refusals(ref('ods_binlog'), of_log=true, typed=typed_models()) }}
)

select * from refused
