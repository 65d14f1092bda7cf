//! Graph patterns as circuits: the same joins as differential dataflow's in `bench/peers/src/graphs.rs`, in the same
//! order.

use anyhow::{Result, bail};
use dbsp::utils::{Tup2, Tup3, Tup4, Tup5};

use crate::circuit::{Output, Rows, Setup, deliver};
use crate::drive::small;

type Edge = Tup2<u32, u32>;

/// Returns one of the vertex lists of the stream.
fn vertices(setup: &mut Setup, name: &str) -> Result<Rows<u32>> {
    setup.table(name, ["v"], |[v]| small(v))
}

fn three(rows: &Rows<Tup3<u32, u32, u32>>) -> Output {
    deliver(rows, |&Tup3(a, b, c), f| f(&[a as i64, b as i64, c as i64]))
}

fn four(rows: &Rows<Tup4<u32, u32, u32, u32>>) -> Output {
    deliver(rows, |&Tup4(a, b, c, d), f| f(&[a as i64, b as i64, c as i64, d as i64]))
}

fn five(rows: &Rows<Tup5<u32, u32, u32, u32, u32>>) -> Output {
    deliver(rows, |&Tup5(a, b, c, d, e), f| f(&[a as i64, b as i64, c as i64, d as i64, e as i64]))
}

fn counts(rows: &Rows<Tup2<u32, i64>>) -> Output {
    deliver(rows, |&Tup2(key, n), f| f(&[key as i64, n]))
}

pub fn build(setup: &mut Setup) -> Result<Output> {
    let n = small(setup.spec.threshold);
    let edges: Rows<Edge> = setup.table("G", ["src", "dst"], |[s, d]| Tup2(small(s), small(d)))?;
    let by_source = edges.map_index(|Tup2(s, d)| (*s, *d));
    let by_target = edges.map_index(|Tup2(s, d)| (*d, *s));
    let last = edges.filter(move |Tup2(_, d)| *d > n).map_index(|Tup2(s, d)| (*s, *d));
    Ok(match setup.spec.workload.as_str() {
        "3-hop" => four(
            &by_target
                .join_index(&last, |c, b, d| Some((*b, Tup2(*c, *d))))
                .join(&by_target, |b, Tup2(c, d), a| Tup4(*a, *b, *c, *d)),
        ),
        "4-hop" => five(
            &by_target
                .join_index(&last, |d, c, e| Some((*c, Tup2(*d, *e))))
                .join_index(&by_target, |c, Tup2(d, e), b| Some((*b, Tup3(*c, *d, *e))))
                .join(&by_target, |b, Tup3(c, d, e), a| Tup5(*a, *b, *c, *d, *e)),
        ),
        "4-hop-jp" => {
            let ends = last.map(|(d, _)| *d).distinct().map_index(|d| (*d, ()));
            let starts = edges.map(|Tup2(_, b)| *b).distinct().map_index(|b| (*b, ()));
            let right = by_target.join_index(&ends, |d, c, ()| Some((*c, *d)));
            let left = by_source.join_index(&starts, |b, c, ()| Some((*c, *b)));
            three(&left.join(&right, |c, b, d| Tup3(*b, *c, *d)))
        }
        "2-comb" => {
            let first = vertices(setup, "V1")?.map_index(|v| (*v, ()));
            let second = vertices(setup, "V2")?.map_index(|v| (*v, ()));
            let heads = by_source.join_index(&first, |a, b, ()| Some((*b, *a)));
            let tails = by_target.join_index(&second, |d, c, ()| Some((*c, *d)));
            four(
                &by_target
                    .join_index(&tails, |c, b, d| Some((*b, Tup2(*c, *d))))
                    .join(&heads, |b, Tup2(c, d), a| Tup4(*a, *b, *c, *d)),
            )
        }
        "triangle" => {
            let closing = edges.map_index(|Tup2(c, a)| (Tup2(*a, *c), ()));
            three(
                &by_target
                    .join_index(&by_source, |b, a, c| Some((Tup2(*a, *c), *b)))
                    .join(&closing, |Tup2(a, c), b, ()| Tup3(*a, *b, *c)),
            )
        }
        "4-cycle" => {
            let kept = edges.filter(move |Tup2(_, d)| *d > n).map_index(|Tup2(c, d)| (*d, *c));
            let back = edges.filter(move |Tup2(d, _)| *d > n).map_index(|Tup2(d, a)| (*d, *a));
            let closing = edges.map_index(|Tup2(a, b)| (Tup2(*a, *b), ()));
            four(
                &kept
                    .join_index(&back, |d, c, a| Some((*c, Tup2(*d, *a))))
                    .join_index(&by_target, |c, Tup2(d, a), b| Some((Tup2(*a, *b), Tup2(*c, *d))))
                    .join(&closing, |Tup2(a, b), Tup2(c, d), ()| Tup4(*a, *b, *c, *d)),
            )
        }
        "agg-star" => counts(&edges.map(|Tup2(s, _)| *s).weighted_count().map(|(s, n)| Tup2(*s, n.pow(4)))),
        // Weights do the counting: a relation without its last column holds, per key, how many rows there were.
        "agg-3-hop" | "agg-3-hop-by" => {
            let tails = edges.map(|Tup2(c, _)| *c).map_index(|c| (*c, ()));
            let paths = by_target.join_index(&tails, |_, b, ()| Some((*b, ())));
            if setup.spec.workload == "agg-3-hop" {
                let targets = edges.map(|Tup2(_, b)| *b).map_index(|b| (*b, ()));
                let all = paths.join(&targets, |_, (), ()| ());
                deliver(&all.weighted_count().map(|((), n)| *n), |&n, f| f(&[n]))
            } else {
                let found = paths.join(&by_target, |_, (), a| *a);
                counts(&found.weighted_count().map(|(a, n)| Tup2(*a, *n)))
            }
        }
        "agg-triangle" => {
            let closing = edges.map_index(|Tup2(c, a)| (Tup2(*a, *c), ()));
            let wedges = by_target.join_index(&by_source, |_, a, c| Some((Tup2(*a, *c), ())));
            let all = wedges.join(&closing, |_, (), ()| ());
            deliver(&all.weighted_count().map(|((), n)| *n), |&n, f| f(&[n]))
        }
        other => bail!("no circuit is written for {other}"),
    })
}
