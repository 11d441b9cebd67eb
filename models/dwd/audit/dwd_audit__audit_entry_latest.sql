with

ods_shop__audit_nopk as (
    select
        kind,
        msg,
        at,
        raw_values,
        before,
        op_type
    from {{ ref('ods_shop__audit_nopk') }}
    where reject_reason is null
),

latest as (
    {{
        latest_rows(
            from_cte='ods_shop__audit_nopk',
            key_columns=[],
            image_columns=[
                'kind',
                'msg',
                'at',
                'raw_values',
            ],
            change_columns=[],
        )
    }}
)

select * from latest
