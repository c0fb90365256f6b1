//! Generates random profiles.

use crate::{ARCHS, ours_of};
use dayfly_seccomp::Insn;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

/// Names that every architecture and libseccomp know, names that only some know, and names of multiplexed calls.
pub const NAMES: [&str; 22] = [
    "read",
    "write",
    "openat",
    "clone",
    "personality",
    "socket",
    "connect",
    "accept4",
    "shmget",
    "semop",
    "send",
    "ioctl",
    "execve",
    "recvmsg",
    "open",
    "stat64",
    "mmap2",
    "set_tls",
    "futex",
    "exit_group",
    "arch_prctl",
    "no_such_call",
];
const ACTIONS: [&str; 6] = [
    "SCMP_ACT_ALLOW",
    "SCMP_ACT_ERRNO",
    "SCMP_ACT_KILL_PROCESS",
    "SCMP_ACT_LOG",
    "SCMP_ACT_TRAP",
    "SCMP_ACT_KILL",
];

fn arguments(distinct: bool) -> impl Strategy<Value = Vec<Value>> {
    let operators: Vec<&str> = dayfly_seccomp::OPERATORS.iter().map(|(name, _)| *name).collect();
    let constant = prop_oneof![0u64..4, Just(u64::from(u32::MAX)), any::<u64>(), Just(1 << 33)];
    let one = (prop::sample::select(operators), constant.clone(), constant);
    (prop::collection::vec(one, 0..3), any::<bool>()).prop_map(move |(list, apart)| {
        let arg = |(at, (op, value, two)): (usize, (&str, u64, u64))| {
            let index = if distinct || apart { at } else { 0 };
            json!({"index": index, "op": op, "value": value, "valueTwo": two})
        };
        list.into_iter().enumerate().map(arg).collect()
    })
}

/// Generates profiles for some of the first `archs` architectures, with up to seven rules that have the same action. If
/// `distinct` is true, each name occurs in one rule only; otherwise, each rule has a random selection of names.
fn generated(distinct: bool, archs: usize) -> impl Strategy<Value = Value> {
    let names: Vec<&str> = ARCHS.iter().take(archs).map(|(arch, _)| arch.name()).collect();
    let archs = prop::sample::subsequence(names, 0..=archs);
    let actions = prop::sample::subsequence(ACTIONS.to_vec(), 2).prop_shuffle();
    let names = Just(NAMES.to_vec()).prop_shuffle();
    let drawn = prop::sample::subsequence(NAMES.to_vec(), 1..6);
    let rules = prop::collection::vec((drawn, arguments(distinct)), 0..7);
    (actions, archs, names, rules, 0u32..200).prop_map(
        move |(actions, archs, names, rules, errno)| {
            let mut parts = names.chunks(3);
            let takes_errno = |action| ["SCMP_ACT_ERRNO", "SCMP_ACT_TRACE"].contains(&action);
            let errno = takes_errno(actions[1]).then_some(errno);
            let rules: Vec<Value> = rules
                .into_iter()
                .map(|(drawn, args)| {
                    let part = parts.next().map(<[_]>::to_vec);
                    let names = if distinct { part.unwrap_or_default() } else { drawn };
                    json!({"names": names, "action": actions[1], "errnoRet": errno, "args": args})
                })
                .collect();
            json!({
                "defaultAction": actions[0],
                "defaultErrnoRet": takes_errno(actions[0]).then_some(7),
                "architectures": archs, "syscalls": rules,
            })
        },
    )
}

pub fn check(
    distinct: bool,
    archs: usize,
    cases: u32,
    other: impl Fn(&Value, &[Insn]) -> Option<String>,
) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    // The profiles are the same on each run, because libseccomp 2.5 loses conditions of a few profiles in a thousand. A
    // random failure for this reason would not mean anything.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let result =
        TestRunner::new_with_rng(config, rng).run(&generated(distinct, archs), |profile| {
            let found = other(&profile, &ours_of(&profile));
            prop_assert_eq!(found, None);
            Ok(())
        });
    result.unwrap();
}
