//! Graph patterns in differential dataflow, binary joins: filters and semi-joins first, arrangements shared, the order
//! that keeps intermediate results smallest. Written by hand for each workload, as its users do.

use anyhow::{Result, bail};
use differential_dataflow::operators::CountTotal;
use differential_dataflow::operators::arrange::{Arranged, TraceAgent};
use differential_dataflow::trace::implementations::KeySpine;

use crate::dataflow::{Rows, Setup, distinct};
use crate::drive::small;

pub type Edges<'s> = Rows<'s, (u32, u32)>;
type Counted<'s> = Arranged<'s, TraceAgent<KeySpine<u32, u64, isize>>>;

/// Returns the targets of edges, as often as there are edges to them.
fn targets(edges: Edges<'_>) -> Counted<'_> {
    edges.map(|(_, b)| b).arrange_by_self()
}

/// Returns every b as often as there are paths (b, c, d).
fn two_hops<'s>(edges: &Edges<'s>) -> Counted<'s> {
    let tails = edges.clone().map(|(c, _)| c).arrange_by_self();
    let by_target = edges.clone().map(|(b, c)| (c, b)).arrange_by_key();
    by_target.join_core(tails, |_, &b, ()| Some(b)).arrange_by_self()
}

/// Returns the edges of the stream.
pub fn edges<'s>(setup: &mut Setup<'_, 's>) -> Result<Edges<'s>> {
    setup.table("G", ["src", "dst"], |[s, d]| (small(s), small(d)))
}

/// Returns one of the vertex lists of the stream.
fn vertices<'s>(setup: &mut Setup<'_, 's>, name: &str) -> Result<Rows<'s, u32>> {
    setup.table(name, ["v"], |[v]| small(v))
}

pub fn build(setup: &mut Setup) -> Result<()> {
    let n = small(setup.spec.threshold);
    let edges = edges(setup)?;
    match setup.spec.workload.as_str() {
        "3-hop" => {
            let last = edges.clone().filter(move |&(_, d)| d > n).arrange_by_key();
            let by_target = edges.map(|(s, d)| (d, s)).arrange_by_key();
            let rows = by_target
                .clone()
                .join_core(last, |&c, &b, &d| Some((b, (c, d))))
                .arrange_by_key()
                .join_core(by_target, |&b, &(c, d), &a| Some((a, b, c, d)));
            setup.deliver(rows, |&(a, b, c, d), f| f(&[a as i64, b as i64, c as i64, d as i64]));
        }
        "4-hop" => {
            let last = edges.clone().filter(move |&(_, e)| e > n).arrange_by_key();
            let by_target = edges.map(|(s, d)| (d, s)).arrange_by_key();
            let rows = by_target
                .clone()
                .join_core(last, |&d, &c, &e| Some((c, (d, e))))
                .arrange_by_key()
                .join_core(by_target.clone(), |&c, &(d, e), &b| Some((b, (c, d, e))))
                .arrange_by_key()
                .join_core(by_target, |&b, &(c, d, e), &a| Some((a, b, c, d, e)));
            setup.deliver(rows, |&(a, b, c, d, e), f| f(&[a as i64, b as i64, c as i64, d as i64, e as i64]));
        }
        "4-hop-jp" => {
            let ends = distinct(edges.clone().filter(move |&(_, e)| e > n).map(|(d, _)| d)).arrange_by_self();
            let starts = distinct(edges.clone().map(|(_, b)| b)).arrange_by_self();
            let by_target = edges.clone().map(|(s, d)| (d, s)).arrange_by_key();
            let last = by_target.clone().join_core(ends, |&d, &c, ()| Some((c, d))).arrange_by_key();
            let middle = edges.arrange_by_key().join_core(starts, |&b, &c, ()| Some((c, b))).arrange_by_key();
            let rows = middle.join_core(last, |&c, &b, &d| Some((b, c, d)));
            setup.deliver(rows, |&(b, c, d), f| f(&[b as i64, c as i64, d as i64]));
        }
        "2-comb" => {
            let first = vertices(setup, "V1")?.arrange_by_self();
            let second = vertices(setup, "V2")?.arrange_by_self();
            let by_source = edges.clone().arrange_by_key();
            let by_target = edges.map(|(s, d)| (d, s)).arrange_by_key();
            let heads = by_source.join_core(first, |&a, &b, ()| Some((b, a))).arrange_by_key();
            let tails = by_target.clone().join_core(second, |&d, &c, ()| Some((c, d))).arrange_by_key();
            let rows = by_target
                .join_core(tails, |&c, &b, &d| Some((b, (c, d))))
                .arrange_by_key()
                .join_core(heads, |&b, &(c, d), &a| Some((a, b, c, d)));
            setup.deliver(rows, |&(a, b, c, d), f| f(&[a as i64, b as i64, c as i64, d as i64]));
        }
        "triangle" => {
            let by_source = edges.clone().arrange_by_key();
            let by_target = edges.clone().map(|(s, d)| (d, s)).arrange_by_key();
            let closing = edges.map(|(c, a)| (a, c)).arrange_by_self();
            let rows = by_target
                .join_core(by_source, |&b, &a, &c| Some(((a, c), b)))
                .arrange_by_key()
                .join_core(closing, |&(a, c), &b, ()| Some((a, b, c)));
            setup.deliver(rows, |&(a, b, c), f| f(&[a as i64, b as i64, c as i64]));
        }
        "4-cycle" => {
            let last = edges.clone().filter(move |&(_, d)| d > n).map(|(c, d)| (d, c)).arrange_by_key();
            let back = edges.clone().filter(move |&(d, _)| d > n).arrange_by_key();
            let by_target = edges.clone().map(|(s, d)| (d, s)).arrange_by_key();
            let rows = last
                .join_core(back, |&d, &c, &a| Some((c, (d, a))))
                .arrange_by_key()
                .join_core(by_target, |&c, &(d, a), &b| Some(((a, b), (c, d))))
                .arrange_by_key()
                .join_core(edges.arrange_by_self(), |&(a, b), &(c, d), ()| Some((a, b, c, d)));
            setup.deliver(rows, |&(a, b, c, d), f| f(&[a as i64, b as i64, c as i64, d as i64]));
        }
        "agg-star" => {
            let rows = edges.map(|(s, _)| s).count_total();
            setup.deliver(rows, |&(s, n), f| f(&[s as i64, (n as i64).pow(4)]));
        }
        // Multiplicities do the counting: a relation without its last column holds, per key, how many rows there were.
        "agg-3-hop" => {
            let rows = two_hops(&edges).join_core(targets(edges), |_, (), ()| Some(())).count_total();
            setup.deliver(rows, |&((), n), f| f(&[n as i64]));
        }
        "agg-3-hop-by" => {
            let by_target = edges.clone().map(|(s, d)| (d, s)).arrange_by_key();
            let rows = two_hops(&edges).join_core(by_target, |_, (), &a| Some(a)).count_total();
            setup.deliver(rows, |&(a, n), f| f(&[a as i64, n as i64]));
        }
        "agg-triangle" => {
            let by_source = edges.clone().arrange_by_key();
            let by_target = edges.clone().map(|(s, d)| (d, s)).arrange_by_key();
            let closing = edges.map(|(c, a)| (a, c)).arrange_by_self();
            let wedges = by_target.join_core(by_source, |_, &a, &c| Some((a, c))).arrange_by_self();
            let rows = wedges.join_core(closing, |_, (), ()| Some(())).count_total();
            setup.deliver(rows, |&((), n), f| f(&[n as i64]));
        }
        other => bail!("no dataflow is written for {other}"),
    }
    Ok(())
}
