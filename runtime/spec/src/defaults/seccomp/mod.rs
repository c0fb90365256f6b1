//! The default seccomp profiles of containers, in the format of config.json.
//!
//! The default profile is dayfly's own (`calls`), so that a filter never depends on a file of another package.
//! [`from_text`] reads a different profile in the engines' format.

mod calls;

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use calls::{Compare, GROUPS, Group, When};

use serde_json::{Value, json};

/// The kernel's name of the architecture of this machine.
const ARCH: &str = if cfg!(target_arch = "aarch64") { "aarch64" } else { "x86_64" };

/// EPERM, the errno of calls that no rule allows.
const EPERM: u32 = 1;

/// A machine architecture, and all architectures whose programs such a machine runs: `kernel` is the kernel's name of
/// the machine, `engines` and `filters` are the architectures' names in Go and in libseccomp.
struct Family {
    kernel: &'static str,
    engines: &'static [&'static str],
    filters: &'static [&'static str],
}

const FAMILIES: [Family; 2] = [
    Family {
        kernel: "x86_64",
        engines: &["amd64", "x86", "x32"],
        filters: &["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
    },
    Family {
        kernel: "aarch64",
        engines: &["arm64", "arm"],
        filters: &["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"],
    },
];

/// Returns the family of the machine architecture with the kernel's name `kernel`, or the first family for a machine
/// that dayfly does not support.
fn family(kernel: &str) -> &'static Family {
    FAMILIES.iter().find(|family| family.kernel == kernel).unwrap_or(&FAMILIES[0])
}

/// Returns dayfly's own profile as `linux.seccomp`, for a container with `capabilities` on this machine.
#[must_use]
pub fn own(capabilities: &[&str]) -> Value {
    own_for(ARCH, capabilities)
}

/// Returns dayfly's own profile for another machine, whose architecture has the kernel's name `kernel`.
#[must_use]
pub fn own_for(kernel: &str, capabilities: &[&str]) -> Value {
    let family = family(kernel);
    let applies = |group: &&Group| match group.when {
        When::Always => true,
        When::On(architectures) => family.engines.iter().any(|own| architectures.contains(own)),
        When::With(any) => any.iter().any(|capability| capabilities.contains(capability)),
        When::Without(capability) => !capabilities.contains(&capability),
    };
    let rules: Vec<Value> = GROUPS.iter().filter(applies).flat_map(rules).collect();
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": EPERM,
        "architectures": family.filters,
        "syscalls": rules,
    })
}

/// Returns the rules of a group. If the first argument is compared with several values, there is one rule for each
/// value; without a comparison, there is a single rule.
fn rules(group: &Group) -> Vec<Value> {
    let rule = match group.errno {
        None => json!({ "names": group.calls, "action": "SCMP_ACT_ALLOW" }),
        Some(errno) => {
            json!({ "names": group.calls, "action": "SCMP_ACT_ERRNO", "errnoRet": errno })
        }
    };
    let with = |argument: Value| {
        let mut rule = rule.clone();
        rule["args"] = json!([argument]);
        rule
    };
    match group.compare {
        Compare::Nothing => vec![rule],
        Compare::First(values) => values
            .iter()
            .map(|value| with(json!({ "index": 0, "value": value, "op": "SCMP_CMP_EQ" })))
            .collect(),
        Compare::NotFirst(value) => other_than(value).into_iter().map(with).collect(),
        Compare::NoneOf(bits) => vec![with(
            json!({ "index": 0, "value": bits, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ" }),
        )],
    }
}

/// The number of low bits of an argument that are sufficient for all values known to the kernel.
const KNOWN_BITS: u32 = 6;

/// Returns a list of conditions, such that each number of [`KNOWN_BITS`] bits other than `value` matches at least one
/// of them. A single condition "not `value`" is not sufficient: for an int, the kernel ignores the upper half of the
/// register, but a filter compares the whole register, so the condition would allow a number whose low half is `value`.
fn other_than(value: u64) -> Vec<Value> {
    let above = (0..KNOWN_BITS).map(|bit| 1u64 << bit).filter(|bit| value & bit == 0).map(|bit| {
        let mask = !(bit - 1);
        let wanted = (value | bit) & mask;
        json!({ "index": 0, "value": mask, "valueTwo": wanted, "op": "SCMP_CMP_MASKED_EQ" })
    });
    let below = json!({ "index": 0, "value": value, "op": "SCMP_CMP_LT" });
    core::iter::once(below).chain(above).collect()
}

/// Converts a profile in the engines' format to `linux.seccomp`, for a container with `capabilities` on this machine.
/// Rules for other architectures and for capabilities that the container does not have are dropped, as Podman does.
///
/// # Errors
/// If the text is no JSON, or no profile.
pub fn from_text(text: &str, capabilities: &[&str]) -> Result<Value, String> {
    let profile: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if !profile["defaultAction"].is_string() {
        return Err(String::from("it is not a seccomp profile: it has no defaultAction"));
    }
    let family = family(ARCH);
    let mut out = json!({
        "defaultAction": profile["defaultAction"],
        "architectures": family.filters,
    });
    if profile["defaultErrnoRet"].is_u64() {
        out["defaultErrnoRet"] = profile["defaultErrnoRet"].clone();
    }
    let rules = profile["syscalls"].as_array().cloned().unwrap_or_default();
    let applies = |rule: &&Value| applies(rule, family, capabilities);
    let kept = rules.iter().filter(applies).map(|rule| {
        let mut kept = json!({ "names": rule["names"], "action": rule["action"] });
        for key in ["errnoRet", "args"] {
            if !rule[key].is_null() && rule[key] != json!([]) {
                kept[key] = rule[key].clone();
            }
        }
        kept
    });
    out["syscalls"] = Value::Array(kept.collect());
    Ok(out)
}

fn applies(rule: &Value, family: &Family, capabilities: &[&str]) -> bool {
    let has = |list: &Value, wanted: &dyn Fn(&str) -> bool| {
        list.as_array().is_some_and(|list| list.iter().filter_map(Value::as_str).any(wanted))
    };
    let here = |arch: &str| family.engines.contains(&arch);
    let owned = |capability: &str| capabilities.contains(&capability);
    let (includes, excludes) = (&rule["includes"], &rule["excludes"]);
    let empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    (empty(&includes["arches"]) || has(&includes["arches"], &here))
        && (empty(&includes["caps"]) || has(&includes["caps"], &owned))
        && !has(&excludes["arches"], &here)
        && !has(&excludes["caps"], &owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn names(profile: &Value, action: &str) -> BTreeSet<String> {
        let rules = profile["syscalls"].as_array().expect("rules");
        let of = rules.iter().filter(|rule| rule["action"] == action && rule["args"].is_null());
        let names = of.flat_map(|rule| rule["names"].as_array().expect("names"));
        names.map(|name| name.as_str().expect("name").to_owned()).collect()
    }

    #[test]
    fn every_call_is_in_one_group_of_a_kind() {
        let mut seen = BTreeSet::new();
        for group in GROUPS.iter().filter(|group| group.when == When::Always) {
            for call in group.calls {
                assert!(seen.insert(call), "{call} twice");
            }
        }
    }

    #[test]
    fn capabilities_bring_their_calls() {
        let without = names(&own_for("x86_64", crate::defaults::CAPABILITIES), "SCMP_ACT_ALLOW");
        let calls = [
            ("CAP_SYS_ADMIN", "mount"),
            ("CAP_SYS_ADMIN", "clone3"),
            ("CAP_SYS_ADMIN", "unshare"),
            ("CAP_BPF", "bpf"),
            ("CAP_DAC_READ_SEARCH", "open_by_handle_at"),
            ("CAP_SYS_MODULE", "finit_module"),
            ("CAP_SYS_TIME", "clock_settime"),
            ("CAP_SYS_NICE", "mbind"),
            ("CAP_SYSLOG", "syslog"),
            ("CAP_SYS_BOOT", "reboot"),
        ];
        for (capability, call) in calls {
            assert!(!without.contains(call), "{call}");
            let all = [crate::defaults::CAPABILITIES, &[capability]].concat();
            assert!(names(&own_for("x86_64", &all), "SCMP_ACT_ALLOW").contains(call), "{call}");
        }
        // The call requires CAP_SYS_CHROOT, which containers have by default.
        assert!(without.contains("chroot"));
        assert!(!names(&own_for("x86_64", &[]), "SCMP_ACT_ALLOW").contains("chroot"));
    }

    #[test]
    fn nobody_gets_what_reaches_the_kernel_itself() {
        let all: Vec<&str> = GROUPS
            .iter()
            .filter_map(|group| match group.when {
                When::With(capabilities) => Some(capabilities),
                _ => None,
            })
            .flatten()
            .copied()
            .collect();
        let allowed = names(&own_for("x86_64", &all), "SCMP_ACT_ALLOW");
        for call in [
            "kexec_load",
            "kexec_file_load",
            "keyctl",
            "add_key",
            "request_key",
            "userfaultfd",
            "io_uring_setup",
            "io_uring_enter",
            "io_uring_register",
            "swapon",
            "pivot_root",
            "nfsservctl",
            "uselib",
            "vm86",
            "move_pages",
        ] {
            assert!(!allowed.contains(call), "{call}");
        }
    }

    #[test]
    fn architectures_have_calls_of_their_own() {
        let (x86, arm) = (own_for("x86_64", &[]), own_for("aarch64", &[]));
        assert_eq!(arm["architectures"], json!(["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"]));
        assert_eq!(x86["architectures"].as_array().map(Vec::len), Some(3));
        for (call, own, other) in [("arch_prctl", &x86, &arm), ("cacheflush", &arm, &x86)] {
            assert!(names(own, "SCMP_ACT_ALLOW").contains(call));
            assert!(!names(other, "SCMP_ACT_ALLOW").contains(call));
        }
        // Glibc tries clone3 first, and falls back to clone only on ENOSYS.
        assert!(names(&x86, "SCMP_ACT_ERRNO").contains("clone3"));
    }

    #[test]
    fn what_is_one_number_to_the_kernel_alone_does_not_pass() {
        let profile = own_for("x86_64", &[]);
        let all = profile["syscalls"].as_array().expect("rules");
        let of = |rule: &&Value| {
            rule["names"].as_array().is_some_and(|names| names.contains(&json!("socket")))
        };
        let rules: Vec<&Value> = all.iter().filter(of).collect();
        assert!(rules.len() > 1);
        let passes = |family: u64| {
            rules.iter().any(|rule| {
                assert_eq!(rule["args"].as_array().map(Vec::len), Some(1), "{rule}");
                let argument = &rule["args"][0];
                let value = argument["value"].as_u64().expect("value");
                match argument["op"].as_str() {
                    Some("SCMP_CMP_LT") => family < value,
                    Some("SCMP_CMP_MASKED_EQ") => {
                        family & value == argument["valueTwo"].as_u64().expect("second value")
                    }
                    other => panic!("{other:?}"),
                }
            })
        };
        for family in 0..64 {
            assert_eq!(passes(family), family != 40, "{family}");
        }
        for high in [1 << 32, 1 << 40, 1 << 63, 0xffff_ffff << 32, 1 << 31, 64] {
            assert!(!passes(high | 40), "{high:x}");
        }
    }
}
