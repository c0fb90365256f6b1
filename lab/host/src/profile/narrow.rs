//! Narrows a profile to the calls that were made; the result never allows more than the original.
//!
//! Rules that deny a call, or notify a supervisor, stay unchanged and in their order. Rules that
//! allow calls lose the names of calls that were not made. So each verdict of the new profile is
//! either the old one or the default, which denies: a rule that took precedence over an allowing
//! rule in the old profile still does.
//!
//! For each architecture, the newest call that the old profile names is named in the new one, too, in a rule with the
//! default action. dayfly's filters answer calls that are newer than all calls of their profile with ENOSYS, so without
//! that rule more calls would fail with ENOSYS. `tests/never_wider.rs` compares the verdicts of generated profiles.

use report::Error;
use seccomp::{Arch, Profile, multiplexed_on_x86};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// EPERM: the errno of calls that were not made, if the old profile states none.
const EPERM: u32 = 1;

/// Actions that allow a call.
const ALLOWING: [&str; 2] = ["SCMP_ACT_ALLOW", "SCMP_ACT_LOG"];

/// Calls that every process needs under a filter.
///
/// After loading the filter, the runtime's init drops CAP_SYS_ADMIN by capset(2) and executes the program, and does
/// nothing else (rule filter-before-exec of the plan). A process exits, and returns from signal handlers. Calls that
/// the vDSO serves on this host are real system calls on hosts with another clock source.
const ALWAYS: &str = "capset clock_getres clock_gettime clock_gettime64 execve exit exit_group \
    getcpu gettimeofday rt_sigreturn sigreturn time";

/// Calls that wait or resume a wait, and calls on the caller's own signals around waits.
///
/// Whether they occur depends on timing: a lock calls futex(2) only while another thread holds it, and a shell blocks
/// signals and waits for a signal only while its child is still running. A program may hang if one of these calls is
/// denied, as busybox's `wait` does. These calls affect only the caller and processes that share its memory.
const WAITS: &str = "clock_nanosleep clock_nanosleep_time64 futex futex_time64 nanosleep pause \
    restart_syscall rt_sigaction rt_sigprocmask rt_sigsuspend sched_yield sigaction \
    sigprocmask sigsuspend";

/// Iterates over the calls that are allowed even if no run made them.
fn free<'a>() -> impl Iterator<Item = &'a str> {
    ALWAYS.split(' ').chain(WAITS.split(' '))
}

/// Returns the profile for learning from a bundle without one: the profile allows everything, but loading it marks the
/// time from which calls are recorded.
pub fn permissive() -> Value {
    json!({ "defaultAction": "SCMP_ACT_ALLOW", "architectures": native() })
}

/// Returns this machine's architecture, and the architectures whose programs it also runs.
fn native() -> Vec<&'static str> {
    let family = match Arch::NATIVE {
        Arch::X86_64 => vec![Arch::X86_64, Arch::X86, Arch::X32],
        Arch::Aarch64 => vec![Arch::Aarch64, Arch::Arm],
        other => vec![other],
    };
    family.into_iter().map(Arch::name).collect()
}

/// Returns the profile `old` without the calls that were not made.
///
/// # Errors
/// A profile that allows by default and denies by arguments: no rule can express which arguments of such a call remain
/// allowed.
pub fn narrow(old: &Value, made: &BTreeSet<&str>) -> Result<Value, Error> {
    let is_wanted = |name: &str| made.contains(name) || free().any(|free| free == name);
    let mut new = old.clone();
    let allows_by_default = allows(&old["defaultAction"]);
    let mut rules = Vec::new();
    for rule in rules_of(old) {
        if !allows(&rule["action"]) {
            if allows_by_default && has_arguments(rule) {
                return Err(refused!(
                    "the profile allows calls by default, and refuses {} by arguments",
                    names_of(rule).next().unwrap_or("none")
                )
                .advise("use a profile that refuses by default, such as that of an engine"));
            }
            rules.push(rule.clone());
        } else if !allows_by_default {
            let names: Vec<&str> = names_of(rule).filter(|name| is_wanted(name)).collect();
            if !names.is_empty() {
                let mut rule = rule.clone();
                rule["names"] = json!(names);
                rules.push(rule);
            }
        }
    }
    if allows_by_default {
        // The new rule must not allow a call that another rule denies. A rule with the new default action would not
        // take precedence: the compiler skips such rules. So the names in the other rules are left out.
        let refused: BTreeSet<&str> = rules.iter().flat_map(names_of).collect();
        let is_free = |name: &&str| !refused.iter().any(|refused| is_related(name, refused));
        let names: BTreeSet<&str> = made.iter().copied().chain(free()).filter(is_free).collect();
        new["defaultAction"] = json!("SCMP_ACT_ERRNO");
        new["defaultErrnoRet"] = json!(EPERM);
        rules.push(json!({ "names": names, "action": "SCMP_ACT_ALLOW" }));
    } else if !last_of(old).is_empty() {
        // Calls after the last call that a profile names count as newer than the profile, and fail with ENOSYS. This
        // rule keeps the last calls of the old profile in the new one, so that the same calls count as newer.
        let mut rule = json!({ "names": last_of(old), "action": old["defaultAction"] });
        if let Some(errno) = old.get("defaultErrnoRet").filter(|errno| errno.is_u64()) {
            rule["errnoRet"] = errno.clone();
        }
        rules.push(rule);
    }
    new["syscalls"] = json!(rules);
    Ok(new)
}

/// Returns whether a rule for one name also affects the other: if both name the same call on any architecture, or if
/// they are a multiplexer of 32-bit x86 and one of its operations.
fn is_related(one: &str, other: &str) -> bool {
    let number = |name: &str, arch| seccomp::number(name, arch);
    let is_behind = |name: &str, multiplexer: &str| {
        let behind = multiplexed_on_x86(name).map(|(number, _)| number);
        behind.is_some() && behind == number(multiplexer, Arch::X86)
    };
    let is_same = |arch| number(one, arch).is_some() && number(one, arch) == number(other, arch);
    one == other
        || Arch::ALL.into_iter().any(is_same)
        || is_behind(one, other)
        || is_behind(other, one)
}

/// Returns the names that a profile allows, with or without conditions.
pub fn allowed(profile: &Value) -> BTreeSet<&str> {
    rules_of(profile).filter(|rule| allows(&rule["action"])).flat_map(names_of).collect()
}

/// Returns the last call that a profile names on each of its architectures.
fn last_of(profile: &Value) -> BTreeSet<&str> {
    let covered = profile["architectures"].as_array().into_iter().flatten();
    let covered = covered.filter_map(Value::as_str).filter_map(Arch::from_name);
    let last = |arch: Arch| {
        let names = rules_of(profile).flat_map(names_of);
        names.filter_map(|name| Some((seccomp::number(name, arch)?, name))).max()
    };
    covered.chain([Arch::NATIVE]).filter_map(last).map(|(_, name)| name).collect()
}

fn rules_of(profile: &Value) -> impl Iterator<Item = &Value> {
    profile["syscalls"].as_array().into_iter().flatten()
}

fn names_of(rule: &Value) -> impl Iterator<Item = &str> {
    rule["names"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn allows(action: &Value) -> bool {
    action.as_str().is_some_and(|action| ALLOWING.contains(&action))
}

fn has_arguments(rule: &Value) -> bool {
    rule["args"].as_array().is_some_and(|args| !args.is_empty())
}

/// Compiles a profile; `whose` names it in errors.
///
/// # Errors
/// The profile is invalid.
pub fn compile(profile: &Value, whose: &str) -> Result<seccomp::Program, Error> {
    let text = profile.to_string();
    let parsed = Profile::parse(&text);
    let compiled =
        parsed.and_then(|profile| seccomp::compile(&profile, &seccomp::Support::default()));
    compiled.map_err(|error| refused!("{whose}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn old() -> Value {
        json!({
            "defaultAction": "SCMP_ACT_ERRNO",
            "defaultErrnoRet": 13,
            "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"],
            "flags": ["SECCOMP_FILTER_FLAG_LOG"],
            "syscalls": [
                { "names": ["clone3", "bpf"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38 },
                { "names": ["read", "write", "mkdir", "clone3"], "action": "SCMP_ACT_ALLOW" },
                { "names": ["personality", "clone"], "action": "SCMP_ACT_ALLOW",
                  "args": [{ "index": 0, "value": 8, "op": "SCMP_CMP_EQ" }] },
                { "names": ["futex_waitv", "exit_group"], "action": "SCMP_ACT_ALLOW" }
            ]
        })
    }

    #[test]
    fn only_what_was_made_is_left() {
        let made = BTreeSet::from(["read", "clone", "clone3", "mount"]);
        let new = narrow(&old(), &made).expect("a profile");
        let expected = json!([
            { "names": ["clone3", "bpf"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38 },
            { "names": ["read", "clone3"], "action": "SCMP_ACT_ALLOW" },
            { "names": ["clone"], "action": "SCMP_ACT_ALLOW",
              "args": [{ "index": 0, "value": 8, "op": "SCMP_CMP_EQ" }] },
            { "names": ["exit_group"], "action": "SCMP_ACT_ALLOW" },
            { "names": ["futex_waitv"], "action": "SCMP_ACT_ERRNO", "errnoRet": 13 },
        ]);
        assert_eq!(new["syscalls"], expected);
        for key in ["defaultAction", "defaultErrnoRet", "architectures", "flags"] {
            assert_eq!(new[key], old()[key], "{key}");
        }
        assert_eq!(allowed(&new), ["clone", "clone3", "exit_group", "read"].into());
        compile(&new, "new").expect("a program");
        // Narrowing it by its own calls does not change it.
        let again = narrow(&new, &made).expect("a profile");
        assert_eq!(allowed(&again), allowed(&new));
    }

    #[test]
    fn a_profile_that_allows_by_default_becomes_one_that_refuses() {
        let new = narrow(&permissive(), &BTreeSet::from(["read"])).expect("a profile");
        assert_eq!(
            (&new["defaultAction"], &new["defaultErrnoRet"]),
            (&json!("SCMP_ACT_ERRNO"), &json!(1))
        );
        let names = allowed(&new);
        assert!(names.contains("read") && names.contains("exit_group") && !names.contains("write"));
        let mut old = permissive();
        for refuses in ["SCMP_ACT_KILL", "SCMP_ACT_ERRNO"] {
            old["syscalls"] = json!([{ "names": ["read", "socket"], "action": refuses }]);
            let new = narrow(&old, &["read", "write", "socketcall"].into()).expect("a profile");
            assert_eq!(new["syscalls"][0], old["syscalls"][0]);
            let names = allowed(&new);
            assert!(names.contains("write") && names.is_disjoint(&["read", "socketcall"].into()));
        }
        old["syscalls"][0]["args"] = json!([{ "index": 0, "value": 8, "op": "SCMP_CMP_EQ" }]);
        let error = narrow(&old, &BTreeSet::new()).expect_err("can't be said").to_string();
        assert!(error.contains("refuses read by arguments"), "{error}");
    }

    #[test]
    fn what_timing_decides_stays() {
        let mut old = old();
        let rules = old["syscalls"].as_array_mut().expect("rules");
        rules
            .push(json!({ "names": Vec::from_iter(WAITS.split(' ')), "action": "SCMP_ACT_ALLOW" }));
        let new = narrow(&old, &BTreeSet::new()).expect("a profile");
        assert!(WAITS.split(' ').all(|name| allowed(&new).contains(name)), "{new:#}");
        let is_call =
            |name: &str| Arch::ALL.into_iter().any(|arch| seccomp::number(name, arch).is_some());
        assert!(free().all(is_call));
    }

    #[test]
    fn what_is_no_profile_is_told() {
        for bad in [json!([]), json!({}), json!({ "defaultAction": "SCMP_ACT_SMILE" })] {
            let error = compile(&bad, "FILE").expect_err("no profile").to_string();
            assert!(error.starts_with("FILE: "), "{error}");
        }
    }
}
