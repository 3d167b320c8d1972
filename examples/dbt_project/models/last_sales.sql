{{ config(
    materialized='incremental', incremental_strategy='merge', unique_key='product',
    tblproperties={'primary-key': 'product', 'bucket': '1'}
) }}
-- The last sale of each product.
select product, max(id) as id, max_by(amount, id) as amount
from {{ ref('priced_sales') }}
{% if is_incremental() %} where id > (select max(id) from {{ this }}) {% endif %}
group by product
