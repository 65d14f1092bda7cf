with firsts as (
    select customer_id, cast(date_trunc('month', min(created_at)) as date) as cohort_month
    from orders where cancelled_at is null group by customer_id
), active as (
    select distinct customer_id, cast(date_trunc('month', created_at) as date) as active_month
    from orders where cancelled_at is null
), sized as (
    select cohort_month, count(*) as cohort_size from firsts group by 1
)
select firsts.cohort_month, date_diff('month', firsts.cohort_month, active.active_month) as month_number,
    count(*) as customers, sized.cohort_size, cast(count(*) as double) / sized.cohort_size as retention
from firsts
join active on active.customer_id = firsts.customer_id
join sized on sized.cohort_month = firsts.cohort_month
group by firsts.cohort_month, date_diff('month', firsts.cohort_month, active.active_month), sized.cohort_size
