with ranked as (
    select charges.id, charges.amount, charges.currency, rates.rate, rates.day,
        row_number() over (partition by charges.id order by rates.day desc nulls last, rates.rate nulls last) as recency
    from charges
    left join rates on rates.currency = charges.currency and rates.day <= cast(charges.created as date)
)
select id, currency, day as rate_day, amount, cast(amount as double) * coalesce(rate, 1.0) as converted
from ranked where recency = 1
