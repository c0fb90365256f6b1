//! The cgroup hierarchies, and whether favordynmods is on.

use super::verdict::Level::{Error, Good, Note, Warning};
use super::verdict::{Section, Verdict};
use crate::dynmods::{BOOT_PARAMETER, State};
use crate::facts::Facts;
use crate::layout::{Layout, Mode};

/// The controllers that are needed for the limits in configurations.
const WANTED: [&str; 5] = ["cpu", "cpuset", "io", "memory", "pids"];

/// Returns the verdicts on cgroups.
#[must_use]
pub fn section(facts: &Facts, layout: &Layout) -> Section {
    let verdicts = [mode(layout), controllers(facts, layout), dynmods(facts, layout)];
    Section { title: "cgroups", verdicts: verdicts.into_iter().flatten().collect() }
}

fn mode(layout: &Layout) -> Option<Verdict> {
    let about = ("cgroup.mode", "cgroup mode");
    let only_v2 = "boot with systemd.unified_cgroup_hierarchy=1";
    let verdict = match layout.mode() {
        Mode::V2 => Verdict::new(about, Good, "v2", "one directory and one clone per container"),
        Mode::Hybrid => Verdict::new(
            about,
            Warning,
            format!("hybrid: {} v1 hierarchies beside v2", layout.legacy.len()),
            "a directory and a move in each for every container",
        )
        .fix(only_v2),
        Mode::V1 => Verdict::new(
            about,
            Warning,
            format!("v1: {} hierarchies", layout.legacy.len()),
            "a directory and a move in each for every container",
        )
        .fix(only_v2),
        Mode::None => Verdict::new(
            about,
            Error,
            "no hierarchy on /sys/fs/cgroup",
            "containers have no limits, and their processes cannot be found",
        )
        .fix("mount -t cgroup2 cgroup2 /sys/fs/cgroup"),
    };
    Some(verdict.figure("mode", layout.mode().name()))
}

/// Checks which controllers are available to containers, and whether the root enables them in cgroup.subtree_control.
fn controllers(facts: &Facts, layout: &Layout) -> Option<Verdict> {
    let about = ("cgroup.controllers", "controllers");
    let words = |file: &str| {
        let text = layout.unified.as_ref().and_then(|top| facts.text(&format!("{top}/{file}")));
        let text = text.unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let (there, handed_down) = (words("cgroup.controllers"), words("cgroup.subtree_control"));
    let names = layout.legacy_names().into_iter().flat_map(|name| name.split(','));
    // `name=systemd` is a hierarchy without controllers, which systemd uses for its units.
    let legacy: Vec<&str> = names.filter(|name| *name != "systemd").collect();
    let has = |name: &str| {
        there.iter().any(|one| one == name)
            || legacy.contains(&name)
            || (name == "io" && legacy.contains(&"blkio"))
    };
    let missing: Vec<&str> = WANTED.into_iter().filter(|name| !has(name)).collect();
    let verdict = match layout.mode() {
        Mode::None => return None,
        _ if !missing.is_empty() => Verdict::new(
            about,
            Warning,
            format!("no {}", missing.join(", ")),
            "limits of these controllers are refused or have no effect",
        )
        .fix_if(
            missing.contains(&"memory"),
            "boot with cgroup_enable=memory, if the kernel has it",
        ),
        Mode::V2 => {
            let held: Vec<&str> = WANTED
                .into_iter()
                .filter(|name| !handed_down.iter().any(|one| one == name))
                .collect();
            match held.is_empty() {
                true => Verdict::new(
                    about,
                    Good,
                    format!("{}, handed down by the root", there.join(" ")),
                    "no start has to turn one on",
                ),
                false => Verdict::new(
                    about,
                    Note,
                    format!("{}; the root keeps {}", there.join(" "), held.join(" ")),
                    "the first start with such a limit enables it for all cgroups",
                )
                .fix(format!(
                    "echo {} > {}/cgroup.subtree_control",
                    held.iter().map(|name| format!("+{name}")).collect::<Vec<_>>().join(" "),
                    layout.unified.as_deref().unwrap_or_default()
                )),
            }
        }
        _ => Verdict::new(
            about,
            Good,
            format!(
                "{} on v1{}",
                legacy.join(" "),
                match there.as_slice() {
                    [] => String::new(),
                    there => format!(", {} on v2", there.join(" ")),
                }
            ),
            "all limits of a configuration",
        ),
    };
    Some(verdict)
}

fn dynmods(facts: &Facts, layout: &Layout) -> Option<Verdict> {
    let about = ("cgroup.favordynmods", "favordynmods");
    let mode = layout.mode();
    if mode == Mode::None {
        return None;
    }
    let state = State::of(facts, layout);
    let source = match (&state, state.is_on()) {
        (State { known: false, .. }, _) => "not in this kernel",
        (State { boot: Some(true), .. }, true) => "on, by boot parameter",
        (State { built: Some(true), .. }, true) => "on, as the kernel is built",
        (_, true) => "on, by mount option",
        (State { boot: Some(false), .. }, false) => "off, by boot parameter",
        (State { built: Some(false), .. }, false) => "off, as the kernel is built",
        (_, false) => "off",
    };
    let lasting = match (state.is_on(), state.persistent, state.by_default()) {
        (true, None, false) => ", until the next boot",
        _ => "",
    };
    let fact = format!("{source}{lasting}");
    let one_way = if state.one_way { " (one-way until reboot from Linux 6.18 on)" } else { "" };
    let verdict = match (state.known, state.is_on(), mode) {
        (false, _, _) => {
            Verdict::new(about, Note, fact, "moving a process waits for a grace period")
                .fix("Linux 6.0 has it")
        }
        (true, true, _) => Verdict::new(
            about,
            Good,
            fact,
            "moves into cgroups don't wait; forks and exits pay a little",
        )
        .fix_if(!lasting.is_empty(), "dayfly host favordynmods persist"),
        (true, false, Mode::V2) => Verdict::new(
            about,
            Note,
            fact,
            "dayfly moves no process; bulk starts of others took 15-32 % less time",
        )
        .fix(format!("dayfly host favordynmods on{one_way}")),
        (true, false, _) => Verdict::new(
            about,
            Note,
            fact,
            "dayfly's init moves as a thread and doesn't wait; others do",
        )
        .fix(format!("boot with {BOOT_PARAMETER}{one_way}")),
    };
    Some(verdict.figure("state", serde_json::to_value(&state).unwrap_or_default()))
}
