//! A learned profile never allows a call that the original did not: tested with generated profiles and sets of calls,
//! on every architecture, with arguments around the profiles' constants. Both filters run in an interpreter of classic
//! BPF.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a number that is cut fails the test"
)]

use dayfly_host::profile::narrow::{compile, narrow};
use proptest::prelude::*;
use seccomp::{Arch, Insn};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Calls with a separate number on 32-bit x86, calls without one, multiplexers (`socketcall`,
/// `ipc`) and their operations, and two names of one call.
const NAMES: [&str; 16] = [
    "read",
    "write",
    "openat",
    "clone",
    "clone3",
    "personality",
    "socket",
    "accept4",
    "socketcall",
    "ipc",
    "shmget",
    "fstatat",
    "newfstatat",
    "execve",
    "exit_group",
    "capset",
];
const ACTIONS: [&str; 6] = [
    "SCMP_ACT_ALLOW",
    "SCMP_ACT_ALLOW",
    "SCMP_ACT_LOG",
    "SCMP_ACT_ERRNO",
    "SCMP_ACT_KILL_PROCESS",
    "SCMP_ACT_TRAP",
];
const VALUES: [u64; 5] = [0, 1, 2, 13, u64::MAX];

/// Returns whether a filter allows a call: SECCOMP_RET_LOG or SECCOMP_RET_ALLOW.
fn passes(filter: &[Insn], nr: u32, arch: u32, args: [u64; 6]) -> bool {
    let word = |offset: u32| match offset {
        0 => nr,
        4 => arch,
        _ => (args[(offset as usize - 16) / 8] >> (8 * (offset % 8))) as u32,
    };
    let (mut accumulator, mut at) = (0u32, 0usize);
    loop {
        let insn = filter[at];
        at += 1;
        let jump = |taken: bool| usize::from(if taken { insn.jt } else { insn.jf });
        match insn.code {
            0x20 => accumulator = word(insn.k),
            0x54 => accumulator &= insn.k,
            0x05 => at += insn.k as usize,
            0x15 => at += jump(accumulator == insn.k),
            0x25 => at += jump(accumulator > insn.k),
            0x35 => at += jump(accumulator >= insn.k),
            0x06 => return matches!(insn.k, 0x7ffc_0000 | 0x7fff_0000),
            code => panic!("instruction {code:#x}"),
        }
    }
}

fn rule() -> impl Strategy<Value = Value> {
    let names = prop::sample::subsequence(&NAMES[..], 1..4);
    let argument = (
        0u32..2,
        prop::sample::select(&VALUES[..]),
        prop::sample::select(&["SCMP_CMP_EQ", "SCMP_CMP_NE", "SCMP_CMP_GT"][..]),
    );
    let arguments = prop::collection::vec(argument, 0..3);
    (names, prop::sample::select(&ACTIONS[..]), arguments).prop_map(|(names, action, arguments)| {
        let arguments: Vec<Value> = arguments
            .into_iter()
            .map(|(index, value, op)| json!({ "index": index, "value": value, "op": op }))
            .collect();
        json!({ "names": names, "action": action, "args": arguments })
    })
}

fn profile() -> impl Strategy<Value = Value> {
    let default = prop::sample::select(&["SCMP_ACT_ERRNO", "SCMP_ACT_KILL", "SCMP_ACT_ALLOW"][..]);
    (default, prop::collection::vec(rule(), 0..9)).prop_map(|(default, rules)| {
        json!({
            "defaultAction": default,
            "architectures": Arch::ALL.map(Arch::name),
            "syscalls": rules,
        })
    })
}

/// Returns the numbers of [`NAMES`], their neighbours, and some unused numbers.
fn numbers(arch: Arch) -> BTreeSet<u32> {
    let named = NAMES.iter().filter_map(|name| seccomp::number(name, arch));
    let near = named.flat_map(|number| [number.saturating_sub(1), number, number + 1]);
    near.chain([0, 102, 117, 600, 0x4000_0000, 0x4000_0258, u32::MAX]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn no_verdict_is_wider(old in profile(), made in prop::sample::subsequence(&NAMES[..], 0..9)) {
        let made: BTreeSet<&str> = made.into_iter().collect();
        // A profile that allows by default and refuses by arguments is not narrowed.
        if let Ok(new) = narrow(&old, &made) {
            let [before, after] =
                [&old, &new].map(|profile| compile(profile, "profile").expect("a program").filter);
            for arch in Arch::ALL {
                for nr in numbers(arch) {
                    for first in VALUES {
                        for second in VALUES {
                            let args = [first, second, 0, 0, 0, 0];
                            let is_wider = passes(&after, nr, arch.token(), args)
                                && !passes(&before, nr, arch.token(), args);
                            prop_assert!(!is_wider, "{arch:?} {nr} {args:?}: {new:#}");
                        }
                    }
                }
            }
        }
    }
}

/// Tests that the comparison detects a profile that is wider than the original.
#[test]
fn a_wider_one_is_seen() {
    let old = json!({ "defaultAction": "SCMP_ACT_ERRNO", "syscalls": [
        { "names": ["read"], "action": "SCMP_ACT_ERRNO" },
        { "names": ["read", "write"], "action": "SCMP_ACT_ALLOW" }] });
    let mut new = narrow(&old, &BTreeSet::from(["read", "write"])).expect("a profile");
    let number = |name| seccomp::number(name, Arch::NATIVE).expect("a call");
    let lets = |profile: &Value, name| {
        let filter = compile(profile, "profile").expect("a program").filter;
        passes(&filter, number(name), Arch::NATIVE.token(), [0; 6])
    };
    assert!(lets(&new, "write") && !lets(&old, "openat") && !lets(&new, "openat"));
    let rules = new["syscalls"].as_array_mut().expect("rules");
    rules.push(json!({ "names": ["openat"], "action": "SCMP_ACT_ALLOW" }));
    assert!(lets(&new, "openat"));
}
