with tagged as (
    select products.id as product_id, lower(u.tag) as tag from products cross join unnest(products.tags) as u(tag)
), sold as (
    select product_id, sum(quantity) as units, max(price) as top_price from lines group by product_id
)
select tagged.tag, count(distinct tagged.product_id) as products, coalesce(sum(sold.units), 0) as units, max(sold.top_price) as top_price,
    string_agg(distinct cast(tagged.product_id as varchar), ',' order by cast(tagged.product_id as varchar)) as product_ids
from tagged left join sold on sold.product_id = tagged.product_id
group by tagged.tag
having count(*) >= 1
