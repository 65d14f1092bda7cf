with unioned as (
    select id, 'charge' as type, created as happened_at, amount - coalesce(fee, 0) as net from charges where status = 'succeeded'
    union all
    select id, 'payout' as type, created as happened_at, -amount as net from payouts where status = 'paid'
    union all
    select id, 'dispute' as type, opened as happened_at, -amount as net from disputes
)
select md5(type || '-' || cast(id as varchar)) as entry_key, type, happened_at, cast(net as decimal(18, 2)) as net,
    sum(net) over (order by happened_at, type, id rows between unbounded preceding and current row) as balance,
    row_number() over (partition by type order by happened_at, id) as entry_number
from unioned where happened_at is not null
