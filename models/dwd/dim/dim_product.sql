with

product_versions as (
    select
        product_id,
        product_name,
        dbt_valid_from,
        dbt_valid_to
    from {{ ref('product_versions') }}
),

versions as (
    select
        product_id,
        product_name,
        dbt_valid_from as valid_from,
        dbt_valid_to as valid_to,
        dbt_valid_to is null as is_current
    from product_versions
)

select * from versions
