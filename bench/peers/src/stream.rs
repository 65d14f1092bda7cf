//! The file of updates: 16 bytes each, little endian: relation, two values (u32) and a weight (i32).

use anyhow::{Result, ensure};

/// One update; relations of one column leave `b` zero.
#[derive(Clone, Copy)]
pub struct Update {
    pub relation: u32,
    pub a: u32,
    pub b: u32,
    pub weight: i32,
}

#[derive(Clone)]
pub struct Stream {
    pub updates: Vec<Update>,
}

impl Stream {
    pub fn read(path: &str) -> Result<Stream> {
        let bytes = std::fs::read(path)?;
        ensure!(bytes.len() % 16 == 0, "{path} is not a file of updates");
        let word = |row: &[u8], i: usize| u32::from_le_bytes(row[4 * i..4 * i + 4].try_into().unwrap());
        let updates = bytes
            .chunks_exact(16)
            .map(|row| Update { relation: word(row, 0), a: word(row, 1), b: word(row, 2), weight: word(row, 3) as i32 })
            .collect();
        Ok(Stream { updates })
    }
}
