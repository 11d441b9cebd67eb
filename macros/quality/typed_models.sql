{#
    The typed ODS models, which the meta models read. dbt takes the names in ref literally, so each
    model with meta.source is named here: dbt parse refuses a list that lacks any.
#}
{% macro typed_models() -%}
    {%- do return([
        ref('ods_app__user_profile'),
        ref('ods_school__class_booking'),
        ref('ods_school__class_session'),
        ref('ods_shop__audit_nopk'),
        ref('ods_shop__coupon'),
        ref('ods_shop__order_address'),
        ref('ods_shop__order_info'),
        ref('ods_shop__product_price'),
        ref('ods_shop__user_account'),
        ref('ods_traffic__page_view'),
    ]) -%}
{%- endmacro %}
