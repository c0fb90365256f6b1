//! Kernel settings that affect every start: RCU, the seccomp JIT, security modules, id ranges.

use super::verdict::Level::{Good, Note, Warning};
use super::verdict::{Section, Verdict};
use crate::facts::Facts;
use std::collections::BTreeMap;

/// The number of ids in a range that only one container uses.
const IDS: u64 = 65_536;

/// Judges the settings.
#[must_use]
pub fn section(facts: &Facts) -> Section {
    let verdicts = vec![rcu(facts), jit(facts), security(facts), ids(facts)];
    Section { title: "settings", verdicts }
}

/// Judges whether waits for RCU grace periods are normal or expedited.
fn rcu(facts: &Facts) -> Verdict {
    let about = ("settings.rcu", "RCU");
    let set = |name: &str| {
        facts
            .number(&format!("/sys/kernel/{name}"))
            .or_else(|| facts.number(&format!("/sys/module/rcupdate/parameters/{name}")))
            .is_some_and(|value| value != 0)
    };
    let (normal, expedited) = (set("rcu_normal"), set("rcu_expedited"));
    let after_boot = facts
        .number("/sys/module/rcupdate/parameters/rcu_normal_after_boot")
        .is_some_and(|value| value != 0);
    let offloaded = facts.boot_parameter("rcu_nocbs").is_some();
    let extra = if offloaded { ", callbacks offloaded (rcu_nocbs)" } else { "" };
    let verdict = match (normal, expedited) {
        (true, _) => Verdict::new(
            about,
            Warning,
            format!("all waits are normal (rcu_normal){extra}"),
            "each unmount and each end of a mount namespace waits 5 to 30 ms",
        )
        .fix("echo 0 > /sys/kernel/rcu_normal")
        .fix_if(after_boot, "and boot without rcupdate.rcu_normal_after_boot"),
        (false, true) => Verdict::new(
            about,
            Good,
            format!("every wait expedited (rcu_expedited){extra}"),
            "moves between cgroups and unmounts wait least; all CPUs are interrupted for it",
        ),
        (false, false) => Verdict::new(
            about,
            Good,
            format!("as the kernel chooses{extra}"),
            "unmounts are quick; a move into a cgroup may wait",
        ),
    };
    verdict.figure("normal", normal).figure("expedited", expedited)
}

/// Judges whether the kernel compiles seccomp filters to machine code.
fn jit(facts: &Facts) -> Verdict {
    let about = ("settings.seccomp_jit", "seccomp JIT");
    let enabled = facts.number("/proc/sys/net/core/bpf_jit_enable");
    let harden = facts.number("/proc/sys/net/core/bpf_jit_harden").unwrap_or(0);
    let fact = match (enabled, harden) {
        (Some(0), _) => "off".to_owned(),
        (Some(2), _) => "on, for debugging".to_owned(),
        (Some(_), 0) => "on".to_owned(),
        (Some(_), 1) => "on, hardened for users".to_owned(),
        (Some(_), _) => "on, hardened for all".to_owned(),
        (None, _) => "not known".to_owned(),
    };
    let verdict = match (enabled, harden) {
        (Some(0), _) => Verdict::new(
            about,
            Warning,
            fact,
            "every system call of every container runs its filter in an interpreter",
        )
        .fix("sysctl -w net.core.bpf_jit_enable=1"),
        (Some(2), _) => {
            Verdict::new(about, Warning, fact, "each filter is printed to the kernel's log")
                .fix("sysctl -w net.core.bpf_jit_enable=1")
        }
        (Some(_), 2..) => Verdict::new(
            about,
            Note,
            fact,
            "filters get longer and are compiled more slowly, root's too",
        )
        .fix("sysctl -w net.core.bpf_jit_harden=1, if users are trusted"),
        (Some(_), _) => Verdict::new(about, Good, fact, "filters run as machine code"),
        (None, _) => Verdict::new(about, Note, fact, "net.core.bpf_jit_enable is root's to read"),
    };
    match enabled {
        Some(enabled) => verdict.figure("enable", enabled).figure("harden", harden),
        None => verdict,
    }
}

/// Judges the security modules that confine containers.
fn security(facts: &Facts) -> Verdict {
    let about = ("settings.security", "security modules");
    let apparmor = facts.text("/sys/module/apparmor/parameters/enabled").as_deref() == Some("Y");
    let enforcing = facts.number("/sys/fs/selinux/enforce");
    let mut active = Vec::new();
    if apparmor {
        active.push("AppArmor");
    }
    match enforcing {
        Some(1) => active.push("SELinux, enforcing"),
        Some(_) => active.push("SELinux, permissive"),
        None => {}
    }
    let verdict = match (active.is_empty(), enforcing) {
        (true, _) => Verdict::new(
            about,
            Note,
            "neither AppArmor nor SELinux",
            "profiles and labels are refused, because no module is loaded",
        ),
        (false, Some(_)) => Verdict::new(
            about,
            Good,
            active.join("; "),
            "labels are set on a start; each network namespace gets SELinux's hooks",
        ),
        (false, None) => {
            Verdict::new(about, Good, active.join("; "), "a profile that is loaded costs no time")
        }
    };
    verdict.figure("apparmor", apparmor).figure("selinux", enforcing.is_some())
}

/// Judges the subordinate id ranges for containers with user namespaces.
fn ids(facts: &Facts) -> Verdict {
    let about = ("settings.subids", "ranges of ids");
    let count = |file: &str| {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for line in facts.text(file).unwrap_or_default().lines() {
            let mut fields = line.split(':');
            if let (Some(owner), Some(_), Some(Ok(count))) =
                (fields.next(), fields.next(), fields.next().map(str::parse::<u64>))
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
    match containers.is_empty() {
        true => Verdict::new(
            about,
            Note,
            "none in /etc/subuid and /etc/subgid",
            "only root can assign ids to containers",
        )
        .fix("usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER"),
        false => Verdict::new(
            about,
            Good,
            format!("for containers with 65536 each: {}", containers.join(", ")),
            "each of their containers can have separate ids",
        ),
    }
}
