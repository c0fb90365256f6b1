//! Seccomp profiles. The kernel must accept every compiled program. Where a profile is simple, the program's decisions
//! must match the profile.

use std::collections::BTreeMap;

use seccomp::{Arch, Insn, Profile, Program, Support};

/// Runs the target on one input; see the module's text.
pub fn target(data: &[u8]) {
    let Some(program) = Program::from_bytes(data) else { return profile(data) };
    assert_eq!(program.to_bytes(), data);
}

fn profile(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(profile) = Profile::parse(text) else { return };
    let Ok(program) = seccomp::compile(&profile, &Support::default()) else { return };
    assert_eq!(Program::from_bytes(&program.to_bytes()).as_ref(), Some(&program));
    verify(&program.filter);
    // serde_json rejects numbers that are out of range, even in fields that the profile's parser ignores.
    let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else { return };
    for (number, expected) in plain_verdicts(&value) {
        for args in [[0; 6], [u64::MAX; 6], [1, 2, 3, 4, 5, 6]] {
            let verdict = run(&program.filter, number, Arch::NATIVE.token(), args);
            assert_eq!(verdict, expected, "call {number} of {text}");
        }
    }
    // The program returns a verdict for any number of any architecture.
    for number in [0, 1, 59, 335, 424, 600, 0x4000_0000, 0x4000_0208, u32::MAX] {
        for token in [Arch::X86_64, Arch::X86, Arch::Aarch64, Arch::Arm].map(Arch::token) {
            run(&program.filter, number, token, [u64::from(number); 6]);
        }
    }
}

/// Checks a filter as the kernel does (seccomp_check_filter and bpf_check_classic).
fn verify(filter: &[Insn]) {
    assert!(!filter.is_empty() && filter.len() <= 4096);
    for (at, insn) in filter.iter().enumerate() {
        let reaches = |jump: usize| at + 1 + jump < filter.len();
        let valid = match insn.code {
            0x20 => insn.k % 4 == 0 && insn.k < 64,
            0x54 | 0x06 => true,
            0x05 => reaches(insn.k as usize),
            0x15 | 0x25 | 0x35 => reaches(insn.jt.into()) && reaches(insn.jf.into()),
            _ => false,
        };
        assert!(valid, "instruction {at}: {insn:?}");
    }
    assert_eq!(filter.last().map(|insn| insn.code), Some(0x06), "the end");
}

/// Runs a filter as the kernel does.
fn run(filter: &[Insn], number: u32, token: u32, args: [u64; 6]) -> u32 {
    let (mut word, mut at) = (0, 0);
    loop {
        let insn = filter[at];
        let jump = |taken: bool| usize::from(if taken { insn.jt } else { insn.jf });
        at += 1;
        match insn.code {
            0x20 => {
                word = match insn.k {
                    0 => number,
                    4 => token,
                    8 | 12 => 0,
                    at => (args[(at as usize - 16) / 8] >> (at % 8 * 8)) as u32,
                }
            }
            0x54 => word &= insn.k,
            0x05 => at += insn.k as usize,
            0x15 => at += jump(word == insn.k),
            0x25 => at += jump(word > insn.k),
            0x35 => at += jump(word >= insn.k),
            _ => return insn.k,
        }
    }
}

/// Returns the verdicts for those native calls that occur in unconditional rules only, all of which have the same
/// action.
fn plain_verdicts(profile: &serde_json::Value) -> BTreeMap<u32, u32> {
    let mut verdicts: BTreeMap<u32, Option<u32>> = BTreeMap::new();
    for rule in profile["syscalls"].as_array().into_iter().flatten() {
        let plain = rule["args"].as_array().is_none_or(Vec::is_empty);
        let verdict = verdict(&rule["action"], &rule["errnoRet"]).filter(|_| plain);
        for name in rule["names"].as_array().into_iter().flatten().filter_map(|name| name.as_str())
        {
            if let Some(number) = seccomp::number(name, Arch::NATIVE) {
                let entry = verdicts.entry(number).or_insert(verdict);
                *entry = if *entry == verdict { verdict } else { None };
            }
        }
    }
    verdicts.into_iter().filter_map(|(number, verdict)| Some((number, verdict?))).collect()
}

/// Returns the action's SECCOMP_RET_* value, including its data.
fn verdict(action: &serde_json::Value, errno: &serde_json::Value) -> Option<u32> {
    let errno = errno.as_u64().unwrap_or(1) as u32;
    Some(match action.as_str()? {
        "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => 0,
        "SCMP_ACT_KILL_PROCESS" => 0x8000_0000,
        "SCMP_ACT_TRAP" => 0x0003_0000,
        "SCMP_ACT_ERRNO" => 0x0005_0000 | errno & 0xffff,
        "SCMP_ACT_LOG" => 0x7ffc_0000,
        "SCMP_ACT_ALLOW" => 0x7fff_0000,
        _ => return None,
    })
}
