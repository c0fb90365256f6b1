//! The programs of libseccomp, with which the compiler's programs are compared.

use crate::{ARCHS, covered, list};
use dayfly_seccomp::{Arch, Insn};
use libseccomp::{
    ScmpAction, ScmpArch, ScmpArgCompare, ScmpCompareOp, ScmpFilterContext, ScmpSyscall,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// Returns libseccomp's program for those architectures of a profile that have the audit token `token`, or for all
/// architectures if `token` is `None`. libseccomp 2.5 has a bug: if a call is missing on one of several architectures,
/// libseccomp rolls back and loses conditions of other rules. Engines' profiles do not trigger this, but generated
/// profiles do.
pub fn theirs_of(profile: &Value, token: Option<u32>) -> Vec<Insn> {
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

/// Removes names that dayfly knows, and that the installed libseccomp does not know on at least one
/// architecture. Returns the number of removed names.
pub fn drop_newer(profile: &mut Value) -> usize {
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

/// Returns whether libseccomp's numbers for a name equal dayfly's. libseccomp's pseudo numbers for
/// multiplexed calls of x86 (−100 to −300) correspond to our rules for socketcall and ipc.
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
