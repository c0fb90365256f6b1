//! Replays the corpora on any compiler, as regression tests. Each handwritten input is also tried in a few variants,
//! which are the same each time; the inputs that long runs have found are tried unchanged.

use std::fs;
use std::path::Path;

use dayfly_fuzz::{TARGETS, Target, kept};

/// The number of variants of each handwritten input.
const CHANGES: u64 = 24;

/// Returns `data` with a byte changed, shortened, or doubled; `number` determines how.
fn changed(data: &[u8], number: u64) -> Vec<u8> {
    let mut data = data.to_vec();
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
    let at = (mixed % (data.len() as u64 + 1)) as usize;
    match number % 4 {
        0 => data.truncate(at),
        1 => data.insert(at, (mixed >> 32) as u8),
        2 if at < data.len() => data[at] ^= 1 << (mixed >> 40 & 7),
        _ => {
            let part = data[at..data.len().min(at + 16)].to_vec();
            data.splice(at..at, part);
        }
    }
    data
}

fn replay((name, target): &Target) -> usize {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(&corpus)
        .unwrap_or_else(|error| panic!("{}: {error}", corpus.display()))
        .map(|entry| entry.expect("entry").path())
        .collect();
    files.sort();
    for file in &files {
        let data = fs::read(file).expect("input");
        // The last line printed before a panic names the input.
        println!("{}", file.display());
        target(&data);
        (0..CHANGES).for_each(|number| target(&changed(&data, number)));
    }
    let found = kept::inputs(name).expect("what long runs found");
    for input in &found {
        println!("{name}: {}", input.escape_ascii());
        target(input);
    }
    files.len() + found.len()
}

#[test]
fn every_input_of_every_corpus() {
    for target in TARGETS {
        let inputs = replay(target);
        assert!(inputs > 0, "no corpus for {}", target.0);
        println!("{}: {inputs} inputs", target.0);
    }
    dayfly_fuzz::clean_up();
}
