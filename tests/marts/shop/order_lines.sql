with lines as (
    select *,
        md5(cast(coalesce(cast(order_id as varchar), '_null_') || '-' || coalesce(cast(line as varchar), '_null_') as varchar)) as line_key
    from lines
), products as (
    select id as product_id, title, coalesce(vendor, 'unknown') as vendor from products
), refunded as (
    select order_id, sum(amount) as amount, count(*) as refunds from refunds group by order_id
), joined as (
    select lines.line_key, lines.order_id, lines.sku, lines.quantity,
        lines.quantity * lines.price as subtotal,
        coalesce(lines.tax, 0) as tax,
        products.title, products.vendor,
        refunded.amount is not null as is_refunded,
        sum(lines.quantity) over (partition by lines.order_id) as order_units,
        rank() over (partition by lines.order_id order by lines.price desc nulls last) as price_rank
    from lines
    left join products on products.product_id = lines.product_id
    left join refunded on refunded.order_id = lines.order_id
)
select line_key, order_id, sku, title, vendor, is_refunded, cast(subtotal as decimal(18, 2)) as subtotal,
    cast(subtotal + tax as decimal(18, 2)) as total, order_units, price_rank
from joined
