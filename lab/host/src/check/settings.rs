//! Kernel settings that affect every start: RCU, the seccomp JIT, security modules, id ranges.

use super::verdict::{Section, Verdict};
use crate::facts::Facts;
use std::collections::BTreeMap;

/// The number of ids in a range that only one container uses.
const IDS: u64 = 65_536;

/// Judges the settings.
pub fn section(facts: &Facts) -> Section {
    let verdicts = vec![rcu(facts), jit(facts), security(facts), ids(facts)];
    Section { title: "settings", verdicts }
}

/// Judges whether waits for RCU grace periods are normal or expedited.
fn rcu(facts: &Facts) -> Verdict {
    let parameter = |name: &str| facts.number(&format!("/sys/module/rcupdate/parameters/{name}"));
    let set = |name: &str| {
        let value = facts.number(&format!("/sys/kernel/{name}")).or_else(|| parameter(name));
        value.is_some_and(|value| value != 0)
    };
    let (normal, expedited) = (set("rcu_normal"), set("rcu_expedited"));
    let after_boot = parameter("rcu_normal_after_boot").is_some_and(|value| value != 0);
    let case = match (normal, expedited) {
        (true, _) => "normal",
        (false, true) => "expedited",
        (false, false) => "chosen",
    };
    let offloaded = match facts.boot_parameter("rcu_nocbs") {
        Some(_) => ", callbacks offloaded (rcu_nocbs)",
        None => "",
    };
    Verdict::of("settings.rcu", case)
        .with("offloaded", offloaded)
        .fix_if(normal && after_boot, "and boot without rcupdate.rcu_normal_after_boot")
        .figure("normal", normal)
        .figure("expedited", expedited)
}

/// Judges whether the kernel compiles seccomp filters to machine code.
fn jit(facts: &Facts) -> Verdict {
    let enabled = facts.number("/proc/sys/net/core/bpf_jit_enable");
    let harden = facts.number("/proc/sys/net/core/bpf_jit_harden").unwrap_or(0);
    let case = match (enabled, harden) {
        (None, _) => "unknown",
        (Some(0), _) => "off",
        (Some(2), _) => "debugging",
        (Some(_), 0) => "on",
        (Some(_), 1) => "hardened_for_users",
        (Some(_), _) => "hardened",
    };
    Verdict::of("settings.seccomp_jit", case)
        .known("enable", enabled)
        .known("harden", enabled.map(|_| harden))
}

/// Judges the security modules that confine containers.
fn security(facts: &Facts) -> Verdict {
    let apparmor = facts.text("/sys/module/apparmor/parameters/enabled").as_deref() == Some("Y");
    let selinux = facts.number("/sys/fs/selinux/enforce");
    let mode = selinux.map(|enforce| match enforce {
        1 => "SELinux, enforcing",
        _ => "SELinux, permissive",
    });
    let active: Vec<&str> = apparmor.then_some("AppArmor").into_iter().chain(mode).collect();
    let case = match (apparmor, selinux) {
        (_, Some(_)) => "selinux",
        (true, None) => "apparmor",
        (false, None) => "none",
    };
    Verdict::of("settings.security", case)
        .with("active", active.join("; "))
        .figure("apparmor", apparmor)
        .figure("selinux", selinux.is_some())
}

/// Judges the subordinate id ranges for containers with user namespaces.
fn ids(facts: &Facts) -> Verdict {
    let count = |file: &str| {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for line in facts.text(file).unwrap_or_default().lines() {
            let mut fields = line.split(':');
            if let (Some(owner), Some(Ok(count))) =
                (fields.next(), fields.nth(1).map(str::parse::<u64>))
            {
                *counts.entry(owner.to_owned()).or_default() += count;
            }
        }
        counts
    };
    let (users, groups) = (count("/etc/subuid"), count("/etc/subgid"));
    let containers: Vec<String> = users
        .iter()
        .map(|(owner, ids)| (owner, (*ids).min(groups.get(owner).copied().unwrap_or(0)) / IDS))
        .filter(|(_, room)| *room > 0)
        .map(|(owner, room)| format!("{owner}: {room}"))
        .collect();
    Verdict::of("settings.subids", if containers.is_empty() { "none" } else { "some" })
        .with("containers", containers.join(", "))
}
