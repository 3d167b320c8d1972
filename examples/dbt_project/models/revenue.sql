{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by=['day']) }}
-- What the sales of each day come to; a run replaces the days from the last one on.
select sum(amount) as amount, day
from {{ ref('priced_sales') }}
{% if is_incremental() %} where day >= (select max(day) from {{ this }}) {% endif %}
group by day
