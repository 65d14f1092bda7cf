with measured as (
    select issues.id as issue_id, issues.kind, coalesce(sum(worklogs.minutes), 0) as minutes, count(worklogs.id) as entries,
        count(distinct worklogs.author) as people
    from issues left join worklogs on worklogs.issue_id = issues.id
    group by issues.id, issues.kind
)
select issue_id, kind, metric, amount
from measured unpivot (amount for metric in (minutes, entries, people))
where amount > 0
