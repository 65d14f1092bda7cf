//! dbsp, the engine of Feldera, over the streams of `crown bench`: one workload, one stream.
//!
//! It is asked and answers as differential dataflow is in `bench/peers`, whose stream, tally and drive it shares. It is a
//! crate of its own because what it depends on is heavy: a TLS library (which needs a C compiler and cmake) among others.

mod circuit;
#[path = "../../src/drive.rs"]
mod drive;
mod graphs;
#[path = "../../src/memory.rs"]
mod memory;
mod ordered;
mod recursions;
mod snb;
#[path = "../../src/stream.rs"]
mod stream;
#[path = "../../src/tally.rs"]
mod tally;
mod tpch;

use anyhow::{Result, bail};
use dbsp::mimalloc::MiMalloc;

/// What dbsp's own benchmarks allocate with.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> Result<()> {
    let (spec, stream) = drive::asked()?;
    match spec.engine.as_str() {
        "dbsp" => circuit::run(spec, stream),
        other => bail!("no engine is called {other}"),
    }
}
