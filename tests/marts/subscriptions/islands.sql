with ordered as (
    select id, customer_id, started, coalesce(ended, date '9999-12-31') as ended,
        max(coalesce(ended, date '9999-12-31')) over (
            partition by customer_id order by started, ended nulls last, id rows between unbounded preceding and 1 preceding) as reached
    from subscriptions
), flagged as (
    select *, case when reached is null or started > reached then 1 else 0 end as begins from ordered
), numbered as (
    select *, sum(begins) over (partition by customer_id order by started, ended, id rows unbounded preceding) as island from flagged
)
select customer_id, island, min(started) as started, max(ended) as ended, count(*) as parts from numbered group by 1, 2
