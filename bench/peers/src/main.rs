//! Differential dataflow over the streams of `crown bench`: one workload, one stream.
//!
//! Standard input brings one JSON object, `Spec`. Standard output is JSON lines: `{"progress": [done, of]}` and, last,
//! `{"result": {...}}`. It runs on one worker; a process that is pinned to a core stays there.

mod dataflow;
mod delta_queries;
mod drive;
mod graphs;
mod memory;
mod recursions;
mod snb;
mod stream;
mod tally;
mod tpch;

use anyhow::{Result, bail};
use mimalloc::MiMalloc;

/// The allocator of dbsp's own benchmarks. The system's allocator is slower for both engines.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> Result<()> {
    let (spec, stream) = drive::asked()?;
    match spec.engine.as_str() {
        "dd" | "dd-delta" => dataflow::run(spec, stream),
        other => bail!("no engine is called {other}"),
    }
}
