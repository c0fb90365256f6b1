//! Measures how long it takes to open the cache's entries, and how long to create them: `unshare -m
//! --propagation private cargo run --release -p dayfly-container --example cache -- CONFIG.json`
//!
//! The cache is created in a separate directory and removed at the end.

use std::time::Instant;

use cgroup::devices::program::{assemble, load_program};
use cgroup::devices::{DEFAULT_RULES, Rule};
use dayfly_container::cache::{Cache, FilterKey};
use seccomp::{Profile, Support, compile};

const ROUNDS: usize = 500;

/// Prints the median and the fastest of all rounds, in µs.
fn measure(what: &str, mut work: impl FnMut()) {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{what:<28} {:8.1} µs, at best {:.1}", times[ROUNDS / 2], times[0]);
}

fn main() {
    let path = std::env::temp_dir().join(format!("dayfly-cache-measure-{}", std::process::id()));
    let path = path.to_str().expect("a path in UTF-8");
    let cache = Cache::open(path).expect("open the cache");
    measure("open", || drop(Cache::open(path)));

    if let Some(config) = std::env::args().nth(1) {
        let text = std::fs::read_to_string(config).expect("read the configuration");
        let config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let profile = config.pointer("/linux/seccomp").expect("linux.seccomp").to_string();
        let build = || {
            let profile = Profile::parse(&profile).expect("a profile");
            compile(&profile, &Support::default())
        };
        let key = FilterKey { profile: profile.as_bytes(), support: b"measure" };
        measure("filter, compiled", || drop(build()));
        if let Err(missing) = cache.filter(key) {
            missing.keep(&build().expect("a program"));
        }
        measure("filter, from the cache", || drop(cache.filter(key)));
        println!("profile of {} bytes", profile.len());
    }

    let rules: Vec<Rule> = DEFAULT_RULES.iter().map(|(_, rule)| *rule).collect();
    let program = assemble(&rules);
    measure("device program, loaded", || drop(load_program(&program)));
    measure("device program, pinned", || {
        drop(cache.device_program(&program, || load_program(&program)))
    });
    println!("device program of {} instructions", program.len());

    let start = Instant::now();
    cache.blank().expect("make the blank");
    println!("blank, made               {:8.1} µs", start.elapsed().as_secs_f64() * 1e6);
    measure("blank, from the cache", || drop(cache.blank()));

    let start = Instant::now();
    Cache::clear(path).expect("clear the cache");
    println!("clear                        {:8.1} µs", start.elapsed().as_secs_f64() * 1e6);
}
