with steps as (
    select user_id,
        min(case when name = 'page_view' then happened_at end) as viewed_at,
        min(case when name = 'add_to_cart' then happened_at end) as carted_at,
        min(case when name = 'purchase' then happened_at end) as purchased_at
    from events group by user_id
), counted as (
    select users.plan,
        count(steps.viewed_at) as viewed,
        count(case when steps.carted_at >= steps.viewed_at then 1 end) as carted,
        count(case when steps.purchased_at >= steps.carted_at and steps.carted_at >= steps.viewed_at then 1 end) as purchased
    from steps join users on users.id = steps.user_id
    group by users.plan
)
select plan, viewed, carted, purchased,
    cast(carted as double) / nullif(viewed, 0) as cart_rate, cast(purchased as double) / nullif(carted, 0) as purchase_rate
from counted
