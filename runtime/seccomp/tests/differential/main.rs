//! Checks that dayfly's filters and libseccomp's give equal verdicts, for profiles of engines and for generated ones.
//! The verdicts are compared for every system call number of every architecture, with argument values near the
//! constants of the profile.
//!
//! Both filters are executed by an interpreter of classic BPF. Names that the installed libseccomp does not know are
//! first removed from the profile, and counted.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "the interpreter and the oracle cut numbers as the kernel and libseccomp do"
)]

mod generated;
mod interpreter;
mod model;
mod oracle;
mod stub;

use dayfly_seccomp::{Arch, Insn, Profile, Support, compile};
use generated::{NAMES, check};
use interpreter::{Data, interpret};
use libseccomp::{ScmpArch, ScmpSyscall};
use model::model;
use oracle::{drop_newer, theirs_of};
use serde_json::Value;
use std::collections::BTreeSet;
use stub::Stub;

const ARCHS: [(Arch, ScmpArch); 6] = [
    (Arch::X86_64, ScmpArch::X8664),
    (Arch::X86, ScmpArch::X86),
    (Arch::X32, ScmpArch::X32),
    (Arch::Aarch64, ScmpArch::Aarch64),
    (Arch::Arm, ScmpArch::Arm),
    (Arch::Riscv64, ScmpArch::Riscv64),
];

/// Iterates over the architectures that a profile covers.
fn covered(profile: &Value) -> impl Iterator<Item = (Arch, ScmpArch)> {
    ARCHS.into_iter().filter(|(arch, _)| {
        *arch == Arch::NATIVE || list(&profile["architectures"]).any(|name| name == arch.name())
    })
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

/// On every architecture, all names that libseccomp knows, and that profiles can use, must have the same numbers here.
#[test]
fn names_are_libseccomps() {
    let mut unlike = Vec::new();
    for (arch, theirs) in ARCHS {
        for number in all_numbers() {
            let call = ScmpSyscall::from_raw_syscall(number as i32);
            let Ok(name) = call.get_name_by_arch(theirs) else { continue };
            // Pseudo numbers, which have names as well, are skipped.
            if (number as i32) < 0
                || ScmpSyscall::from_name_by_arch(&name, theirs).ok() != Some(call)
            {
                continue;
            }
            let ours = dayfly_seccomp::number(&name, arch);
            if ours != Some(number) {
                unlike.push(format!("{name} on {}: {number}, ours {ours:?}", arch.name()));
            }
        }
    }
    assert!(unlike.is_empty(), "{unlike:#?}");
}

/// Iterates over the numbers to compare: all that exist on any architecture, and some at the edges of the value range.
fn all_numbers() -> impl Iterator<Item = u32> {
    let edges = [0x3fff_ffff, 0x7fff_ffff, 0x8000_0000, 0xc000_0000, u32::MAX - 1, u32::MAX];
    (0..600).chain(0x4000_0000..0x4000_0258).chain(0x0f_0000..0x0f_0008).chain(edges)
}

/// Iterates over the numbers of the calls in [`NAMES`], and their adjacent numbers.
fn named_numbers() -> impl Iterator<Item = u32> {
    let numbers: BTreeSet<u32> = NAMES
        .iter()
        .flat_map(|name| ARCHS.map(|(arch, _)| dayfly_seccomp::number(name, arch)))
        .flatten()
        .flat_map(|number| [number.wrapping_sub(1), number, number + 1])
        .collect();
    numbers.into_iter()
}

/// Returns argument values near the constants of a profile.
fn boundary_values(profile: &Value) -> Vec<u64> {
    let mut values = BTreeSet::from([0, 1, u64::from(u32::MAX), 1 << 32, u64::MAX]);
    for arg in list(&profile["syscalls"]).flat_map(|rule| list(&rule["args"])) {
        for key in ["value", "valueTwo"] {
            let value = arg[key].as_u64().unwrap_or(0);
            values.extend([value, value.wrapping_sub(1), value.wrapping_add(1), !value]);
            values.extend([value ^ 1 << 32, value | 1 << 31, value & 0xffff_ffff]);
        }
    }
    values.into_iter().collect()
}

/// Returns whether any rule of the profile has conditions.
fn has_conditions(profile: &Value) -> bool {
    list(&profile["syscalls"]).any(|rule| list(&rule["args"]).next().is_some())
}

/// Returns a description of the first input for which the verdicts differ.
fn difference(
    profile: &Value,
    ours: &[Insn],
    theirs: impl Fn(u32) -> Vec<Insn>,
    numbers: &[u32],
) -> Option<String> {
    let (values, stub) = (boundary_values(profile), Stub::new(profile));
    let mut vectors: Vec<[u64; 6]> = vec![[0; 6], [u64::MAX; 6]];
    if has_conditions(profile) {
        vectors.extend(values.iter().map(|value| [*value; 6]));
        // Each argument takes each value, while the other arguments cycle through the values.
        for (at, value) in values.iter().enumerate() {
            for index in 0..6 {
                let mut vector = [0; 6];
                for (other, slot) in vector.iter_mut().enumerate() {
                    *slot = values[(at * 7 + other * 5) % values.len()];
                }
                vector[index] = *value;
                vectors.push(vector);
            }
        }
    }
    let tokens: BTreeSet<u32> = ARCHS.iter().map(|(arch, _)| arch.token()).chain([0, 7]).collect();
    for arch in tokens {
        let theirs = theirs(arch);
        for nr in all_numbers() {
            // All numbers are tested with the first two vectors, and those in `numbers` with all vectors.
            let count = if numbers.contains(&nr) { vectors.len() } else { 2 };
            for args in vectors.iter().take(count) {
                let data = Data { nr, arch, args: *args };
                let a = interpret(ours, &data);
                let b = stub.verdict(&data).unwrap_or_else(|| interpret(&theirs, &data));
                if a != b {
                    return Some(format!(
                        "arch {arch:#x} nr {nr:#x} args {args:x?}: {a:#x}, libseccomp {b:#x}"
                    ));
                }
            }
        }
    }
    None
}

fn ours_of(profile: &Value) -> Vec<Insn> {
    let text = profile.to_string();
    let parsed = Profile::parse(&text).unwrap();
    compile(&parsed, &Support::default()).unwrap().filter
}

fn engine_profile(name: &str) -> Value {
    let path = format!("{}/../spec/tests/data/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let config: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    config["linux"]["seccomp"].clone()
}

#[test]
fn profiles_of_engines() {
    for name in ["docker", "podman", "containerd-options"] {
        let mut profile = engine_profile(name);
        let whole = ours_of(&profile).len();
        let dropped = drop_newer(&mut profile);
        assert!(dropped < 80, "{name}: {dropped} names are not compared");
        let (ours, theirs) = (ours_of(&profile), theirs_of(&profile, None));
        let numbers: Vec<u32> = all_numbers().collect();
        println!("{name}: {whole} instructions, libseccomp {}", theirs.len());
        let found = difference(&profile, &ours, |_| theirs.clone(), &numbers);
        assert_eq!(found, None, "{name}");
        assert!(whole < 600, "{name}: {whole} instructions");
    }
}

#[test]
fn a_wrong_instruction_is_noticed() {
    let mut profile = engine_profile("docker");
    drop_newer(&mut profile);
    let (ours, theirs) = (ours_of(&profile), theirs_of(&profile, None));
    let mut noticed = 0;
    let jumps = (0..ours.len()).filter(|at| ours[*at].code == 0x35 && ours[*at].jt != ours[*at].jf);
    for at in jumps.step_by(9) {
        let mut wrong = ours.clone();
        wrong[at].k += 1;
        noticed += usize::from(difference(&profile, &wrong, |_| theirs.clone(), &[]).is_some());
    }
    assert!(noticed > 5, "{noticed} of the mutations were noticed");
}

/// Each call has only one rule here. If there are several comparisons of the same argument, libseccomp's trees lose
/// some of them: for `< 0` and `< 1 << 32`, nothing matches. dayfly does not reproduce this bug. For such profiles,
/// [`model`] is used instead of libseccomp.
#[test]
fn generated_profiles() {
    let numbers: Vec<u32> = named_numbers().collect();
    check(true, 6, 100, |profile, ours| {
        let theirs = |token| match covered(profile).any(|(arch, _)| arch.token() == token) {
            true => theirs_of(profile, Some(token)),
            // A program that returns SECCOMP_RET_KILL_THREAD.
            false => vec![Insn { code: 6, jt: 0, jf: 0, k: 0 }],
        };
        difference(profile, ours, theirs, &numbers)
    });
}

#[test]
fn overlapping_rules_mean_what_they_say() {
    check(false, 6, 60, |profile, ours| {
        let stub = Stub::new(profile);
        for arch in ARCHS.map(|(arch, _)| arch.token()) {
            // The numbers of the multiplexers are left out, because the rules of the multiplexed calls apply to them as
            // well.
            for nr in named_numbers().filter(|nr| ![102, 117].contains(nr)) {
                for value in boundary_values(profile) {
                    for args in [[value; 6], [value, !value, 1, value, 0, 0]] {
                        let data = Data { nr, arch, args };
                        let a = interpret(ours, &data);
                        let b = stub.verdict(&data).unwrap_or_else(|| model(profile, &data));
                        if a != b {
                            return Some(format!(
                                "arch {arch:#x} nr {nr:#x} {args:x?}: {a:#x} {b:#x}"
                            ));
                        }
                    }
                }
            }
        }
        None
    });
}
