//! Recursions as circuits: the same joins as differential dataflow's in `bench/peers/src/recursions.rs`. The operator
//! makes the rows of every round distinct by itself.

use anyhow::{Result, anyhow, bail};
use dbsp::utils::Tup2;
use dbsp::{OrdIndexedZSet, RootCircuit, Stream};

use crate::circuit::{Output, Rows, Setup, deliver};
use crate::drive::small;

type Pair = Tup2<u32, u32>;
type Indexed = Stream<RootCircuit, OrdIndexedZSet<u32, u32>>;

pub fn build(setup: &mut Setup) -> Result<Output> {
    match setup.spec.workload.as_str() {
        "rec-reach" => {
            let sources = setup.table("S", ["v"], |[v]| small(v))?.map_index(|v| (*v, ()));
            let edges = table(setup, "G", ["src", "dst"])?.map_index(|Tup2(s, d)| (*s, *d));
            let rows = setup
                .circuit
                .recursive(|scope, reached: Stream<_, OrdIndexedZSet<u32, ()>>| {
                    let edges = edges.delta0(scope);
                    Ok(reached.join_index(&edges, |_, (), x| Some((*x, ()))).plus(&sources.delta0(scope)))
                })
                .map_err(|e| anyhow!("{e}"))?;
            Ok(deliver(&rows.map(|(x, ())| *x), |&x, f| f(&[x as i64])))
        }
        "rec-reach-100" => {
            let sources = setup.table("S", ["v"], |[v]| small(v))?.map_index(|v| (*v, *v));
            let edges = table(setup, "G", ["src", "dst"])?.map_index(|Tup2(s, d)| (*s, *d));
            paths(setup, &sources, &edges)
        }
        "rec-closure" => closure(setup, "G", ["src", "dst"]),
        "rec-folders" => closure(setup, "T", ["parent", "id"]),
        other => bail!("no circuit is written for {other}"),
    }
}

fn table(setup: &mut Setup, name: &str, columns: [&str; 2]) -> Result<Rows<Pair>> {
    setup.table(name, columns, |[a, b]| Tup2(small(a), small(b)))
}

/// Returns the starts and ends of all paths along the rows of a table.
fn closure(setup: &mut Setup, name: &str, columns: [&str; 2]) -> Result<Output> {
    let rows = table(setup, name, columns)?;
    let forward = rows.map_index(|Tup2(a, b)| (*a, *b));
    let backward = rows.map_index(|Tup2(a, b)| (*b, *a));
    paths(setup, &backward, &forward)
}

/// Returns the starts and ends of paths, which are indexed by their ends.
fn paths(setup: &mut Setup, first: &Indexed, edges: &Indexed) -> Result<Output> {
    let rows = setup
        .circuit
        .recursive(|scope, found: Stream<_, OrdIndexedZSet<u32, u32>>| {
            let edges = edges.delta0(scope);
            Ok(found.join_index(&edges, |_, s, x| Some((*x, *s))).plus(&first.delta0(scope)))
        })
        .map_err(|e| anyhow!("{e}"))?;
    Ok(deliver(&rows.map(|(x, s)| Tup2(*s, *x)), |&Tup2(s, x), f| f(&[s as i64, x as i64])))
}
