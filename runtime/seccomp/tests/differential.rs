//! Checks that a compiled profile and libseccomp give equal verdicts, for profiles of engines and for generated ones.
//! Compares every system call number of every architecture, with argument values near the constants of the profile.
//!
//! Both programs are executed by an interpreter of classic BPF. Names that the installed libseccomp does not know are
//! first removed from the profile, and counted.

mod stub;

use std::collections::BTreeSet;

use dayfly_seccomp::{Arch, Insn, Profile, Support, compile};
use libseccomp::{
    ScmpAction, ScmpArch, ScmpArgCompare, ScmpCompareOp, ScmpFilterContext, ScmpSyscall,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use stub::Stub;

const ARCHS: [(Arch, ScmpArch); 6] = [
    (Arch::X86_64, ScmpArch::X8664),
    (Arch::X86, ScmpArch::X86),
    (Arch::X32, ScmpArch::X32),
    (Arch::Aarch64, ScmpArch::Aarch64),
    (Arch::Arm, ScmpArch::Arm),
    (Arch::Riscv64, ScmpArch::Riscv64),
];

/// The input that the kernel passes to a filter (seccomp(2), `struct seccomp_data`).
struct Data {
    nr: u32,
    arch: u32,
    args: [u64; 6],
}

impl Data {
    fn word(&self, offset: u32) -> u32 {
        match offset {
            0 => self.nr,
            4 => self.arch,
            16..64 => {
                let arg = self.args[(offset as usize - 16) / 8];
                (arg >> (8 * (offset % 8))) as u32
            }
            _ => panic!("load at {offset}"),
        }
    }
}

/// Executes a filter, as the kernel does.
fn interpret(filter: &[Insn], data: &Data) -> u32 {
    let (mut accumulator, mut at) = (0u32, 0usize);
    for _ in 0..8192 {
        let insn = filter[at];
        at += 1;
        let jump = |taken: bool| usize::from(if taken { insn.jt } else { insn.jf });
        match insn.code {
            0x20 => accumulator = data.word(insn.k),
            0x54 => accumulator &= insn.k,
            0x05 => at += insn.k as usize,
            0x15 => at += jump(accumulator == insn.k),
            0x25 => at += jump(accumulator > insn.k),
            0x35 => at += jump(accumulator >= insn.k),
            0x06 => return insn.k,
            code => panic!("instruction {code:#x}"),
        }
    }
    panic!("a filter that does not end")
}

/// Returns libseccomp's program for those architectures of a profile that have the audit token `token`, or for all if
/// it is `None`. libseccomp 2.5 has a bug: if a call is missing on one of several architectures, it rolls back and
/// loses conditions of other rules. Engines' profiles do not trigger this, but generated profiles do.
fn theirs_of(profile: &Value, token: Option<u32>) -> Vec<Insn> {
    let archs: Vec<(Arch, ScmpArch)> =
        covered(profile).filter(|(arch, _)| token.is_none_or(|t| t == arch.token())).collect();
    let action = |value: &Value, errno: &Value| {
        let errno = errno.as_u64().unwrap_or(1);
        match value.as_str().unwrap() {
            "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => ScmpAction::KillThread,
            "SCMP_ACT_KILL_PROCESS" => ScmpAction::KillProcess,
            "SCMP_ACT_TRAP" => ScmpAction::Trap,
            "SCMP_ACT_ERRNO" => ScmpAction::Errno(errno as i32),
            "SCMP_ACT_TRACE" => ScmpAction::Trace(errno as u16),
            "SCMP_ACT_LOG" => ScmpAction::Log,
            "SCMP_ACT_ALLOW" => ScmpAction::Allow,
            other => panic!("{other}"),
        }
    };
    let default = action(&profile["defaultAction"], &profile["defaultErrnoRet"]);
    let mut filter = ScmpFilterContext::new(default).unwrap();
    for (_, arch) in &archs {
        filter.add_arch(*arch).unwrap();
    }
    if archs.iter().all(|(arch, _)| *arch != Arch::NATIVE) {
        filter.remove_arch(ScmpArch::Native).unwrap();
    }
    for rule in list(&profile["syscalls"]) {
        let value = action(&rule["action"], &rule["errnoRet"]);
        if value == default {
            continue;
        }
        let conditions: Vec<ScmpArgCompare> = list(&rule["args"]).map(condition).collect();
        let indices: BTreeSet<_> = list(&rule["args"]).map(|arg| arg["index"].as_u64()).collect();
        for name in list(&rule["names"]) {
            let name = name.as_str().unwrap();
            let Ok(call) = ScmpSyscall::from_name(name) else { continue };
            if token.is_some() && !archs.iter().any(|(arch, theirs)| has_call(name, *arch, *theirs))
            {
                continue;
            }
            if indices.len() < conditions.len() {
                for condition in &conditions {
                    filter.add_rule_conditional(value, call, &[*condition]).unwrap();
                }
            } else {
                filter.add_rule_conditional(value, call, &conditions).unwrap();
            }
        }
    }
    let path = std::env::temp_dir().join(format!("dayfly-bpf-{}", thread_name()));
    filter.export_bpf(std::fs::File::create(&path).unwrap()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let insn = |c: &[u8]| Insn {
        code: u16::from_le_bytes([c[0], c[1]]),
        jt: c[2],
        jf: c[3],
        k: u32::from_le_bytes([c[4], c[5], c[6], c[7]]),
    };
    bytes.chunks_exact(8).map(insn).collect()
}

/// Iterates over the architectures that a profile covers.
fn covered(profile: &Value) -> impl Iterator<Item = (Arch, ScmpArch)> {
    ARCHS.into_iter().filter(|(arch, _)| {
        *arch == Arch::NATIVE || list(&profile["architectures"]).any(|name| name == arch.name())
    })
}

/// Returns whether libseccomp has a number for a call on an architecture. For multiplexed calls of x86, a pseudo number
/// counts as well.
fn has_call(name: &str, arch: Arch, theirs: ScmpArch) -> bool {
    let number = ScmpSyscall::from_name_by_arch(name, theirs).map(i32::from);
    number.is_ok_and(|number| number >= 0 || arch == Arch::X86 && number > -400)
}

/// Returns a name that is unique to the process and thread, because tests run in parallel.
fn thread_name() -> String {
    format!("{}-{:?}", std::process::id(), std::thread::current().id())
}

fn condition(arg: &Value) -> ScmpArgCompare {
    let number = |key: &str| arg[key].as_u64().unwrap_or(0);
    let (operator, datum) = match arg["op"].as_str().unwrap() {
        "SCMP_CMP_NE" => (ScmpCompareOp::NotEqual, number("value")),
        "SCMP_CMP_LT" => (ScmpCompareOp::Less, number("value")),
        "SCMP_CMP_LE" => (ScmpCompareOp::LessOrEqual, number("value")),
        "SCMP_CMP_EQ" => (ScmpCompareOp::Equal, number("value")),
        "SCMP_CMP_GE" => (ScmpCompareOp::GreaterEqual, number("value")),
        "SCMP_CMP_GT" => (ScmpCompareOp::Greater, number("value")),
        "SCMP_CMP_MASKED_EQ" => (ScmpCompareOp::MaskedEqual(number("value")), number("valueTwo")),
        other => panic!("{other}"),
    };
    ScmpArgCompare::new(number("index") as u32, operator, datum)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

/// Removes names that we know, but the installed libseccomp does not know on at least one architecture. Returns the
/// number of removed names.
fn drop_newer(profile: &mut Value) -> usize {
    let mut dropped = BTreeSet::new();
    for rule in profile["syscalls"].as_array_mut().unwrap() {
        rule["names"].as_array_mut().unwrap().retain(|name| {
            let name = name.as_str().unwrap();
            let known = is_known_alike(name);
            if !known {
                dropped.insert(name.to_string());
            }
            known
        });
    }
    println!("{} names are newer than this libseccomp: {dropped:?}", dropped.len());
    dropped.len()
}

/// Returns whether libseccomp has the same numbers for a name as we have. Its pseudo numbers for multiplexed calls of
/// x86 (−100 to −300) correspond to our rules for socketcall and ipc.
fn is_known_alike(name: &str) -> bool {
    ARCHS.iter().all(|(arch, theirs)| {
        let ours = dayfly_seccomp::number(name, *arch);
        let theirs = ScmpSyscall::from_name_by_arch(name, *theirs).map(i32::from).ok();
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => ours as i32 == theirs || (-400..-99).contains(&theirs),
            (Some(_), None) => false,
            (None, Some(theirs)) => theirs < 0,
            (None, None) => true,
        }
    })
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

/// Names that every architecture and libseccomp know, names that only some know, and names of multiplexed calls.
const NAMES: [&str; 22] = [
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

fn check(
    distinct: bool,
    archs: usize,
    cases: u32,
    other: impl Fn(&Value, &[Insn]) -> Option<String>,
) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    // The profiles are the same on each run, because for a few profiles of a thousand, libseccomp 2.5 loses conditions.
    // A random failure for this reason would not mean anything.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let result =
        TestRunner::new_with_rng(config, rng).run(&generated(distinct, archs), |profile| {
            let found = other(&profile, &ours_of(&profile));
            prop_assert_eq!(found, None);
            Ok(())
        });
    result.unwrap();
}

/// Each call has only one rule here. If there are several comparisons of the same argument, libseccomp's trees lose
/// some of them (for `< 0` and `< 1 << 32`, nothing matches), which we do not reproduce. For such profiles, [`model`]
/// is used instead of libseccomp.
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

/// Evaluates a profile according to the specification, rule by rule. Used for profiles with overlapping rules.
fn model(profile: &Value, data: &Data) -> u32 {
    let value = |name: &Value, errno: &Value| {
        let (_, bits) =
            dayfly_seccomp::ACTIONS.iter().find(|(known, _)| name == known).expect("known");
        let errno = errno.as_u64().unwrap_or(1) as u32;
        if name == "SCMP_ACT_ERRNO" { bits | errno } else { *bits }
    };
    let default = value(&profile["defaultAction"], &profile["defaultErrnoRet"]);
    let covers = |arch: Arch| {
        arch == Arch::NATIVE || list(&profile["architectures"]).any(|name| name == arch.name())
    };
    let x32 = data.nr >= 0x4000_0000 && data.nr != u32::MAX;
    let arch = ARCHS.iter().map(|(arch, _)| *arch).find(|arch| {
        let is_x32 = *arch == Arch::X32;
        let shared = arch.token() == Arch::X32.token();
        covers(*arch) && arch.token() == data.arch && (!shared || is_x32 == x32)
    });
    let Some(arch) = arch else { return 0 };
    let narrow = matches!(arch, Arch::X86 | Arch::X32 | Arch::Arm);
    let cut = |value: u64| if narrow { value & 0xffff_ffff } else { value };
    let holds = |arg: &Value| {
        let actual = cut(data.args[arg["index"].as_u64().unwrap() as usize]);
        let number = |key: &str| cut(arg[key].as_u64().unwrap_or(0));
        let wanted = number("value");
        match arg["op"].as_str().unwrap() {
            "SCMP_CMP_NE" => actual != wanted,
            "SCMP_CMP_LT" => actual < wanted,
            "SCMP_CMP_LE" => actual <= wanted,
            "SCMP_CMP_EQ" => actual == wanted,
            "SCMP_CMP_GE" => actual >= wanted,
            "SCMP_CMP_GT" => actual > wanted,
            _ => actual & wanted == number("valueTwo") & wanted,
        }
    };
    for rule in list(&profile["syscalls"]) {
        let named = list(&rule["names"])
            .any(|name| dayfly_seccomp::number(name.as_str().unwrap(), arch) == Some(data.nr));
        let indices: BTreeSet<_> = list(&rule["args"]).map(|arg| arg["index"].as_u64()).collect();
        let split = indices.len() < list(&rule["args"]).count();
        let matches = match split {
            true => list(&rule["args"]).any(holds),
            false => list(&rule["args"]).all(holds),
        };
        if named && matches {
            return value(&rule["action"], &rule["errnoRet"]);
        }
    }
    default
}

#[test]
fn overlapping_rules_mean_what_they_say() {
    check(false, 6, 60, |profile, ours| {
        let stub = Stub::new(profile);
        for arch in ARCHS.map(|(arch, _)| arch.token()) {
            // The multiplexers are left out: in addition to their own rules, those of the multiplexed calls apply to
            // them.
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
