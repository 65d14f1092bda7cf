with firsts as (
    select customer_id, min(day) as trial_day from trials group by customer_id
), paid as (
    select s.customer_id, s.plan, s.started, s.amount from subscriptions s
    qualify row_number() over (partition by s.customer_id order by s.started nulls last, s.id) = 1
)
select paid.plan, cast(date_trunc('month', firsts.trial_day) as date) as month, count(*) as trials,
    count(*) filter (where paid.started >= firsts.trial_day) as converted,
    cast(min(paid.started + interval '1' day) filter (where paid.started >= firsts.trial_day) as date) as first_conversion,
    sum(paid.amount * (100 - coalesce((select max(c.percent) from coupons c where c.customer_id = firsts.customer_id), 0)) / 100.0) > 0 as worth
from firsts left join paid on paid.customer_id = firsts.customer_id
group by 1, 2
