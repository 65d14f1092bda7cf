with cleaned as (
    select id, nullif(trim(lower(email)), '') as email, company, updated_at from contacts where not deleted
), ranked as (
    select *, row_number() over (partition by email order by updated_at desc nulls last, id) as recency,
        count(*) over (partition by email) as copies
    from cleaned where email is not null
), touched as (
    select contact_id, count(*) as activities, max(happened_at) as latest, count(distinct kind) as kinds from activities group by 1
)
select ranked.id, ranked.email, split_part(ranked.email, '@', 2) as domain, ranked.company, ranked.copies,
    coalesce(touched.activities, 0) as activities, touched.latest, touched.kinds
from ranked left join touched on touched.contact_id = ranked.id
where ranked.recency = 1
