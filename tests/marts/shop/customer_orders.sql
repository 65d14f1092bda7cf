with orders as (
    select * from orders where cancelled_at is null
), numbered as (
    select *,
        row_number() over (partition by customer_id order by created_at, id) as order_number,
        lag(created_at) over (partition by customer_id order by created_at, id) as previous_at
    from orders
), aggregated as (
    select customer_id,
        min(created_at) as first_order_at,
        max(created_at) as latest_order_at,
        count(*) as orders,
        sum(total) as lifetime_value,
        count(distinct cast(created_at as date)) as order_days,
        string_agg(distinct source, ', ' order by source) as sources,
        count(*) filter (where discount > 0) as discounted
    from orders group by 1
), gaps as (
    select customer_id, max(date_diff('day', cast(previous_at as date), cast(created_at as date))) as longest_gap
    from numbered where order_number > 1 group by 1
)
select customers.id as customer_id,
    lower(customers.email) as email,
    coalesce(aggregated.orders, 0) as orders,
    coalesce(aggregated.lifetime_value, 0) as lifetime_value,
    aggregated.first_order_at, aggregated.latest_order_at, aggregated.sources, aggregated.discounted, gaps.longest_gap,
    case when aggregated.orders is null then 'none' when aggregated.orders = 1 then 'new' else 'returning' end as kind
from customers
left join aggregated on aggregated.customer_id = customers.id
left join gaps on gaps.customer_id = customers.id
