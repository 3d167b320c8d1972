{{ config(materialized='incremental', incremental_strategy='append') }}
-- Each sale once, as it was when it came.
select id, day, amount from {{ ref('priced_sales') }}
{% if is_incremental() %} where id > (select max(id) from {{ this }}) {% endif %}
