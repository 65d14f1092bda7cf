with powers as (
    select 0 as generated_number union all select 1
), unioned as (
    select p0.generated_number * power(2, 0) + p1.generated_number * power(2, 1) + p2.generated_number * power(2, 2)
        + p3.generated_number * power(2, 3) + p4.generated_number * power(2, 4) + 1 as generated_number
    from powers as p0 cross join powers as p1 cross join powers as p2 cross join powers as p3 cross join powers as p4
), spine as (
    select cast(date '2024-01-01' + interval '1' day * (row_number() over (order by generated_number) - 1) as date) as date_day
    from unioned where generated_number <= 31
), daily as (
    select cast(created_at as date) as date_day, count(*) as orders, sum(total) as revenue, count(distinct customer_id) as buyers
    from orders where cancelled_at is null group by 1
), refunds as (
    select cast(refunded_at as date) as date_day, sum(amount) as refunded from refunds group by 1
)
select spine.date_day,
    coalesce(daily.orders, 0) as orders,
    coalesce(daily.revenue, 0) as revenue,
    coalesce(daily.buyers, 0) as buyers,
    coalesce(refunds.refunded, 0) as refunded,
    sum(coalesce(daily.revenue, 0)) over (order by spine.date_day rows between 6 preceding and current row) as revenue_7_days,
    sum(coalesce(daily.orders, 0)) over (order by spine.date_day rows unbounded preceding) as orders_so_far
from spine
left join daily on daily.date_day = spine.date_day
left join refunds on refunds.date_day = spine.date_day
