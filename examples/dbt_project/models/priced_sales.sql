{{ config(tblproperties={'primary-key': 'id', 'bucket': '1'}) }}
-- Computed anew by each run; the rows of earlier runs stay as snapshots.
select s.id, s.day, s.product, s.pieces * p.price as amount
from {{ source('shop', 'sales') }} s join {{ ref('products') }} p on s.product = p.product
