with months as (
    select date '2024-01-01' as month union all select date '2024-02-01' union all select date '2024-03-01' union all select date '2024-04-01'
), active as (
    select months.month, subscriptions.customer_id, sum(subscriptions.amount) as mrr
    from months join subscriptions
        on cast(date_trunc('month', subscriptions.started) as date) <= months.month
        and (subscriptions.ended is null or cast(date_trunc('month', subscriptions.ended) as date) > months.month)
    group by months.month, subscriptions.customer_id
), spine as (
    select customers.customer_id, months.month
    from (select customer_id, min(cast(date_trunc('month', started) as date)) as first_month from subscriptions group by 1) customers
    join months on months.month >= customers.first_month
), joined as (
    select spine.customer_id, spine.month, coalesce(active.mrr, 0) as mrr,
        coalesce(lag(active.mrr) over (partition by spine.customer_id order by spine.month), 0) as previous_mrr,
        row_number() over (partition by spine.customer_id order by spine.month) as month_number
    from spine left join active on active.customer_id = spine.customer_id and active.month = spine.month
)
select md5(cast(customer_id as varchar) || cast(month as varchar)) as mrr_key, customer_id, month, mrr, mrr - previous_mrr as change,
    case when month_number = 1 then 'new'
        when previous_mrr = 0 and mrr > 0 then 'reactivation'
        when previous_mrr > 0 and mrr = 0 then 'churn'
        when mrr > previous_mrr then 'upgrade'
        when mrr < previous_mrr then 'downgrade' end as category
from joined
