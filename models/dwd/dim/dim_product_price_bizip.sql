{{
    config(
        materialized='folded',
        unique_key=['product_id', 'valid_from'],
        zipper={'sequence': 'known_time', 'row_kind': 'row_kind', 'period': 'known'},
        full_refresh=false,
        on_definition_change='accept',
        meta={'put_back': false},
        tags=['beliefs'],
    )
}}

with

product_beliefs as (
    {{
        beliefs(
            rows=ref('dim_product_price_zip'),
            key=['product_id', 'valid_from'],
            columns=['product_name', 'price', 'valid_to'],
        )
    }}
)

select * from product_beliefs
