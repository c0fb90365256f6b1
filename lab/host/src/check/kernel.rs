//! The kernel features that starts use, and the fallbacks that starts on this host use instead.

use super::probe::{self, FileSystems};
use super::verdict::{Section, Verdict};
use crate::facts::{Facts, NAMESPACES};
use crate::layout::{self, Layout};
use rootfs::Mode;

/// Directories in which engines keep layers, or would keep them.
const STORES: [&str; 3] = ["/var/lib/dayfly", "/var/lib", "/usr"];

/// Returns the verdicts on the kernel.
pub fn section(facts: &Facts, layout: &Layout) -> Section {
    let systems = if facts.is_live() { probe::file_systems(&STORES) } else { None };
    let version = if facts.since(5, 12) { "new" } else { "old" };
    let identity = if facts.can(probe::pidfd_inode, (6, 9)) { "inode" } else { "start_time" };
    let statmount = if facts.can(sys::probe::statmount, (6, 8)) { "there" } else { "missing" };
    let verdicts = vec![
        Verdict::of("kernel.version", version).with("release", &facts.release),
        namespaces(facts),
        birth(facts, layout),
        Verdict::of("kernel.mount_namespace", "blank")
            .figure("open_tree_namespace", facts.is_live() && probe::open_tree_namespace()),
        idmap(facts, systems.as_ref()),
        layers(facts, systems.as_ref()),
        seal(facts),
        Verdict::of("kernel.pidfd", identity),
        kill(facts, layout),
        Verdict::of("kernel.statmount", statmount),
    ];
    Section { title: "kernel", verdicts }
}

fn namespaces(facts: &Facts) -> Verdict {
    let there = facts.names("/proc/self/ns");
    let missing: Vec<&str> =
        NAMESPACES.into_iter().filter(|kind| !there.iter().any(|name| name == kind)).collect();
    let case = match missing.as_slice() {
        _ if there.is_empty() => "unreadable",
        [] => "complete",
        ["time"] => "without_time",
        _ => "missing",
    };
    Verdict::of("kernel.namespaces", case).with("missing", missing.join(", "))
}

/// Checks how init enters its cgroup.
fn birth(facts: &Facts, layout: &Layout) -> Verdict {
    let known = facts.can(sys::probe::clone_into_cgroup, (5, 7));
    let case = match (known, layout.unified.is_some()) {
        (true, true) if layout.mode() == layout::Mode::V2 => "born",
        (true, true) => "both",
        (true, false) => "moved",
        (false, _) => "old",
    };
    // Init writes `0` to `tasks`. A write to `cgroup.procs`, or of a pid, would sometimes wait for an RCU grace period.
    let how = match facts.since(5, 5) {
        true => ", as a thread: no grace period",
        false => ": an RCU grace period now and then",
    };
    Verdict::of("kernel.birth", case).with("how", how)
}

fn idmap(facts: &Facts, systems: Option<&FileSystems>) -> Verdict {
    let tried = systems.and_then(|systems| systems.idmap.as_ref());
    let case = match tried {
        Some((_, true)) => "works",
        Some((_, false)) => "refused",
        None if facts.is_live() => "untried",
        None if facts.since(5, 12) => "by_version",
        None => "none",
    };
    Verdict::of("kernel.idmap", case).with("place", tried.map_or("", |(place, _)| place))
}

fn layers(facts: &Facts, systems: Option<&FileSystems>) -> Verdict {
    let rung = match (systems, facts.version) {
        (Some(systems), _) => systems.layers,
        (None, _) if facts.is_live() => return Verdict::of("kernel.layers", "untried"),
        (None, version) => {
            let works = |mode: &Mode| version >= mode.needs();
            Mode::ALL.into_iter().find(works).unwrap_or(Mode::Copy)
        }
    };
    let (case, rung) = match rung {
        Mode::Fd => ("descriptor", "descriptor"),
        Mode::Path => ("name_below_proc", "name"),
        Mode::Parent | Mode::PerLayer => ("attached", "attached"),
        Mode::Copy => ("copied", "copied"),
    };
    Verdict::of("kernel.layers", case).figure("rung", rung)
}

/// Checks how the runtime protects its own binary from containers (CVE-2019-5736).
fn seal(facts: &Facts) -> Verdict {
    let runtime = std::env::current_exe().unwrap_or_default().with_file_name("dayfly");
    let case = match facts.is_live() {
        false => "elsewhere",
        true if probe::on_read_only_mount(&runtime) => "read_only",
        true if probe::image_can_move() => "copy",
        true => "execve",
    };
    Verdict::of("kernel.seal", case)
}

fn kill(facts: &Facts, layout: &Layout) -> Verdict {
    let child = layout.unified.as_ref().and_then(|top| {
        let mut paths = facts.names(top).into_iter().map(|name| format!("{top}/{name}"));
        paths.find(|path| facts.has(&format!("{path}/cgroup.procs")))
    });
    let whole = match &child {
        Some(child) => facts.has(&format!("{child}/cgroup.kill")),
        None => layout.unified.is_some() && facts.since(5, 14),
    };
    let case = match (whole, layout.unified.is_some()) {
        (true, _) => "whole",
        (false, true) => "signals",
        (false, false) => "frozen",
    };
    Verdict::of("kernel.cgroup_kill", case)
}
