with months as (
    select date '2024-01-01' as month union all select date '2024-02-01' union all select date '2024-03-01'
), monthly as (
    select account_id, cast(date_trunc('month', day) as date) as month, sum(coalesce(debit, 0) - coalesce(credit, 0)) as change
    from entries where day is not null group by 1, 2
), grid as (
    select accounts.id as account_id, accounts.kind, months.month from accounts cross join months
), filled as (
    select grid.account_id, grid.kind, grid.month, coalesce(monthly.change, 0) as change
    from grid left join monthly on monthly.account_id = grid.account_id and monthly.month = grid.month
)
select account_id, kind, month, change,
    sum(change) over (partition by account_id order by month) as ending,
    sum(change) over (partition by account_id order by month) - change as beginning
from filled
