{% snapshot product_prices %}
{{ config(unique_key='product', strategy='check', check_cols=['price']) }}
select * from {{ ref('products') }}
{% endsnapshot %}
