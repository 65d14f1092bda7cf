with recursiveless as (
    select deals.id, deals.stage, deals.amount, owners.name as owner, managers.name as manager,
        case when deals.closed is null then 'open' when deals.stage = 'won' then 'won' else 'closed' end as state
    from deals
    left join owners on owners.id = deals.owner_id
    left join owners as managers on managers.id = owners.manager_id
)
select coalesce(manager, 'none') as manager, coalesce(owner, 'none') as owner, state,
    count(*) as deals, sum(amount) as amount, max_by(id, id) as newest,
    stddev_samp(cast(amount as double)) as spread,
    min(state) as least_state
from recursiveless group by rollup (coalesce(manager, 'none'), coalesce(owner, 'none'), state) having count(*) > 0
