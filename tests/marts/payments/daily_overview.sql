select cast(created as date) as day, currency,
    count(*) as charges,
    sum(case when status = 'succeeded' then amount else 0 end) as succeeded,
    sum(case when status = 'failed' then 1 else 0 end) as failed,
    count(distinct case when status = 'succeeded' then customer_id end) as payers,
    avg(case when status = 'succeeded' then cast(amount as double) end) as mean_amount,
    max(amount) filter (where status <> 'pending') as largest,
    grouping(currency) as is_total
from charges
group by grouping sets ((cast(created as date), currency), (cast(created as date)))
