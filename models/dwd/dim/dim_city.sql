with

city_versions as (
    select
        city_code,
        city_name,
        country_code,
        region_code,
        dbt_valid_from,
        dbt_valid_to
    from {{ ref('city_versions') }}
),

versions as (
    select
        city_code,
        city_name,
        country_code,
        region_code,
        dbt_valid_from as valid_from,
        dbt_valid_to as valid_to,
        dbt_valid_to is null as is_current
    from city_versions
)

select * from versions
