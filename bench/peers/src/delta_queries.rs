//! Differential dataflow, delta queries: one rule per input, joined with the other inputs' arrangements by
//! `half_join`, so that no intermediate result is kept.
//!
//! Rule i sees the changes of an input j < i that come at the same time, and not those of j > i. The rules of a triangle
//! are worst-case optimal: a changed edge is extended from the end that has fewer edges, and looked up at the other.

use anyhow::{Result, bail};
use differential_dataflow::AsCollection;
use differential_dataflow::VecCollection;
use differential_dataflow::operators::CountTotal;
use differential_dataflow::operators::arrange::{Arranged, TraceAgent};
use differential_dataflow::trace::implementations::ValSpine;
use differential_dogs3::altneu::AltNeu;
use differential_dogs3::operators::{count, half_join, propose, validate};
use timely::dataflow::Scope;
use timely::dataflow::operators::vec::{Map, Partition};
use timely::progress::Antichain;

use crate::dataflow::{Rows, Setup};
use crate::drive::small;
use crate::graphs::{Edges, edges};

type Changes<'s, V> = VecCollection<'s, u64, (u32, V, u64), isize>;
type Index<'s> = Arranged<'s, TraceAgent<ValSpine<u32, u32, u64, isize>>>;

/// Returns the changes of an input: key, what goes along, and when it happened.
fn changes<'s>(edges: Edges<'s>, reverse: bool) -> Changes<'s, u32> {
    edges.inner.map(move |((s, d), t, r)| (if reverse { (d, s, t) } else { (s, d, t) }, t, r)).as_collection()
}

/// Joins with another input: `seen` says whether its changes of the same time count.
fn look<'s, V, O, F>(rows: Changes<'s, V>, index: Index<'s>, seen: bool, f: F) -> Changes<'s, O>
where
    V: differential_dataflow::ExchangeData,
    O: differential_dataflow::ExchangeData,
    F: Fn(u32, &V, u32) -> (u32, O) + 'static,
{
    let before = |time: &u64, found: &mut Antichain<u64>| {
        found.insert(time.saturating_sub(1));
    };
    half_join(
        rows,
        index,
        before,
        move |found, now| if seen { found <= now } else { found < now },
        move |k: &u32, v: &V, w: &u32| f(*k, v, *w),
    )
    .inner
    .map(|(((k, v), t), initial, r)| ((k, v, t), initial, r))
    .as_collection()
}

/// Extends every edge of `$edges` by a vertex that two indexes have for it: the one that counts fewer proposes, the other
/// one validates. An index is its counts, values and pairs, and what it is asked for.
macro_rules! extend {
    ($edges:expr, [$counts:expr, $values:expr, $pairs:expr, $key:expr], [$counts2:expr, $values2:expr, $pairs2:expr, $key2:expr]) => {{
        let prefixes = $edges.clone().map(|edge: (u32, u32)| (edge, usize::MAX, 0));
        let prefixes = count(count(prefixes, $counts.clone(), $key, 0), $counts2.clone(), $key2, 1);
        let mut parts =
            prefixes.inner.partition(2, |((edge, _, index), t, r)| (index as u64, (edge, t, r))).into_iter();
        let mut fewer = || parts.next().unwrap().as_collection();
        let first = propose(fewer(), $values.clone(), $key);
        let second = propose(fewer(), $values2.clone(), $key2);
        validate(first, $pairs2.clone(), $key2).concat(validate(second, $pairs.clone(), $key))
    }};
}

/// Returns a, b, c of all edges (a, b), (b, c), (c, a).
fn triangles<'s>(scope: Scope<'s, u64>, edges: Edges<'s>) -> Rows<'s, (u32, u32, u32)> {
    let reversed = edges.clone().map(|(s, d)| (d, s));
    let (out_values, into_values) = (edges.clone().arrange_by_key(), reversed.clone().arrange_by_key());
    let (out_pairs, into_pairs) = (edges.clone().arrange_by_self(), reversed.clone().arrange_by_self());
    let out_counts = edges.clone().map(|(s, _)| s).arrange_by_self();
    let into_counts = reversed.map(|(d, _)| d).arrange_by_self();
    scope.scoped::<AltNeu<u64>, _, _>("Triangles", |inner| {
        // An input as it was before the changes of a time is `neu`, with them `alt`.
        macro_rules! at {
            ($index:expr, $when:ident) => {
                $index.clone().enter_at(inner, |_, _, t| AltNeu::$when(t.clone()), |t| t.time.saturating_sub(1))
            };
        }
        let (source, target) = (|edge: &(u32, u32)| edge.0, |edge: &(u32, u32)| edge.1);
        let edges = edges.enter(inner);
        let out_neu = (at!(out_counts, neu), at!(out_values, neu), at!(out_pairs, neu));
        let out_alt = (at!(out_counts, alt), at!(out_values, alt), at!(out_pairs, alt));
        let into_neu = (at!(into_counts, neu), at!(into_values, neu), at!(into_pairs, neu));
        let into_alt = (at!(into_counts, alt), at!(into_values, alt), at!(into_pairs, alt));
        let first =
            extend!(edges, [out_neu.0, out_neu.1, out_neu.2, target], [into_neu.0, into_neu.1, into_neu.2, source])
                .map(|((a, b), c)| (a, b, c));
        let second =
            extend!(edges, [into_alt.0, into_alt.1, into_alt.2, source], [out_neu.0, out_neu.1, out_neu.2, target])
                .map(|((b, c), a)| (a, b, c));
        let third =
            extend!(edges, [out_alt.0, out_alt.1, out_alt.2, target], [into_alt.0, into_alt.1, into_alt.2, source])
                .map(|((c, a), b)| (a, b, c));
        first.concat(second).concat(third).leave(scope)
    })
}

pub fn build(setup: &mut Setup) -> Result<()> {
    let n = small(setup.spec.threshold);
    let edges = edges(setup)?;
    if setup.spec.workload == "triangle" {
        let rows = triangles(setup.scope, edges);
        setup.deliver(rows, |&(a, b, c), f| f(&[a as i64, b as i64, c as i64]));
        return Ok(());
    }
    if setup.spec.workload == "agg-triangle" {
        let rows = triangles(setup.scope, edges).map(|_| ()).count_total();
        setup.deliver(rows, |&((), n), f| f(&[n as i64]));
        return Ok(());
    }
    let filtered = edges.clone().filter(move |&(_, d)| d > n);
    let out: Index<'_> = edges.clone().arrange_by_key();
    let into: Index<'_> = edges.clone().map(|(s, d)| (d, s)).arrange_by_key();
    let last: Index<'_> = filtered.clone().arrange_by_key();
    match setup.spec.workload.as_str() {
        "3-hop" => {
            let first = changes(edges.clone(), true); // (b, a)
            let first = look(first, out, false, |b, &a, c| (c, (a, b)));
            let first = look(first, last.clone(), false, |c, &(a, b), d| (a, (b, c, d)));
            let second = changes(edges, false); // (b, c)
            let second = look(second, into.clone(), true, |b, &c, a| (c, (a, b)));
            let second = look(second, last, false, |c, &(a, b), d| (a, (b, c, d)));
            let third = changes(filtered, false); // (c, d)
            let third = look(third, into.clone(), true, |c, &d, b| (b, (c, d)));
            let third = look(third, into, true, |b, &(c, d), a| (a, (b, c, d)));
            let rows = first.concat(second).concat(third);
            setup.deliver(rows, |&(a, (b, c, d), _), f| f(&[a as i64, b as i64, c as i64, d as i64]));
        }
        "4-hop" => {
            let first = changes(edges.clone(), true); // (b, a)
            let first = look(first, out.clone(), false, |b, &a, c| (c, (a, b)));
            let first = look(first, out.clone(), false, |c, &(a, b), d| (d, (a, b, c)));
            let first = look(first, last.clone(), false, |d, &(a, b, c), e| (a, (b, c, d, e)));
            let second = changes(edges.clone(), true); // (c, b)
            let second = look(second, out, false, |c, &b, d| (d, (b, c)));
            let second = look(second, last.clone(), false, |d, &(b, c), e| (b, (c, d, e)));
            let second = look(second, into.clone(), true, |b, &(c, d, e), a| (a, (b, c, d, e)));
            let third = changes(edges, true); // (d, c)
            let third = look(third, last, false, |d, &c, e| (c, (d, e)));
            let third = look(third, into.clone(), true, |c, &(d, e), b| (b, (c, d, e)));
            let third = look(third, into.clone(), true, |b, &(c, d, e), a| (a, (b, c, d, e)));
            let fourth = changes(filtered, false); // (d, e)
            let fourth = look(fourth, into.clone(), true, |d, &e, c| (c, (d, e)));
            let fourth = look(fourth, into.clone(), true, |c, &(d, e), b| (b, (c, d, e)));
            let fourth = look(fourth, into, true, |b, &(c, d, e), a| (a, (b, c, d, e)));
            let rows = first.concat(second).concat(third).concat(fourth);
            setup.deliver(rows, |&(a, (b, c, d, e), _), f| f(&[a as i64, b as i64, c as i64, d as i64, e as i64]));
        }
        other => bail!("no delta queries are written for {other}"),
    }
    Ok(())
}
