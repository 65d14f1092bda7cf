//! dbsp, the engine of Feldera, over the streams of `crown bench`: one workload, one stream.
//!
//! It is asked and answers as differential dataflow is in `bench/peers`, whose stream, tally and drive it shares. It is a
//! crate of its own because what it depends on is heavy: a TLS library (which needs a C compiler and cmake) among others.

mod circuits;
#[path = "../../src/drive.rs"]
mod drive;
#[path = "../../src/stream.rs"]
mod stream;
#[path = "../../src/tally.rs"]
mod tally;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let (spec, stream) = drive::asked()?;
    match spec.engine.as_str() {
        "dbsp" => circuits::run(spec, stream),
        other => bail!("no engine is called {other}"),
    }
}
