//! Prints the time that the compilation of a profile takes, and the size of the resulting program:
//! `cargo run --release -p dayfly-seccomp --example measure -- CONFIG.json…`

use std::time::Instant;

use dayfly_seccomp::{Profile, Support, compile};

const ROUNDS: u32 = 200;

fn main() {
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).expect("read the file");
        let config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        // The file contains either a complete config.json or only a profile.
        let profile = config.pointer("/linux/seccomp").unwrap_or(&config).to_string();
        let support = Support::default();
        let mut fastest = f64::INFINITY;
        let mut instructions = 0;
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let parsed = Profile::parse(&profile).expect("a profile");
            let program = compile(&parsed, &support).expect("a program");
            fastest = fastest.min(start.elapsed().as_secs_f64() * 1e6);
            instructions = program.filter.len();
        }
        println!("{path}: {instructions} instructions, {fastest:.0} µs at best of {ROUNDS}");
    }
}
