//! The cgroup hierarchies, and whether favordynmods is on.

use super::verdict::{Section, Verdict};
use crate::dynmods::State;
use crate::facts::Facts;
use crate::layout::{Layout, Mode};

/// The controllers that are needed for the limits in configurations.
const WANTED: [&str; 5] = ["cpu", "cpuset", "io", "memory", "pids"];

/// Returns the verdicts on cgroups.
pub fn section(facts: &Facts, layout: &Layout) -> Section {
    let mode = layout.mode();
    let mut verdicts = vec![
        Verdict::of("cgroup.mode", mode.name())
            .with("legacy", layout.legacy.len())
            .figure("mode", mode.name()),
    ];
    if mode != Mode::None {
        verdicts.extend([controllers(facts, layout), dynmods(facts, layout)]);
    }
    Section { title: "cgroups", verdicts }
}

/// Checks which controllers are available to containers, and whether the root enables them in cgroup.subtree_control.
fn controllers(facts: &Facts, layout: &Layout) -> Verdict {
    let root = layout.unified.as_deref().unwrap_or_default();
    let words = |file: &str| facts.text(&format!("{root}/{file}")).unwrap_or_default();
    let (there, handed_down) = match layout.unified {
        Some(_) => (words("cgroup.controllers"), words("cgroup.subtree_control")),
        None => Default::default(),
    };
    let has = |list: &str, name: &str| list.split_whitespace().any(|word| word == name);
    let names = layout.legacy_names().into_iter().flat_map(|name| name.split(','));
    // `name=systemd` is a hierarchy without controllers, which systemd uses for its units.
    let legacy = names.filter(|name| *name != "systemd").collect::<Vec<_>>().join(" ");
    let without = |is_there: &dyn Fn(&str) -> bool| {
        WANTED.into_iter().filter(|name| !is_there(name)).collect::<Vec<_>>()
    };
    let missing = without(&|name| {
        has(&there, name) || has(&legacy, name) || name == "io" && has(&legacy, "blkio")
    });
    let kept = without(&|name| has(&handed_down, name));
    let case = match layout.mode() {
        _ if !missing.is_empty() => "missing",
        Mode::V2 if kept.is_empty() => "handed_down",
        Mode::V2 => "kept",
        _ if there.is_empty() => "legacy",
        _ => "legacy_and_v2",
    };
    Verdict::of("cgroup.controllers", case)
        .fix_if(missing.contains(&"memory"), "boot with cgroup_enable=memory, if the kernel has it")
        .with("missing", missing.join(", "))
        .with("there", there.split_whitespace().collect::<Vec<_>>().join(" "))
        .with("added", format!("+{}", kept.join(" +")))
        .with("kept", kept.join(" "))
        .with("legacy", legacy)
        .with("root", root)
}

fn dynmods(facts: &Facts, layout: &Layout) -> Verdict {
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
    let case = match (state.known, state.is_on()) {
        (false, _) => "unsupported",
        (true, true) if state.persistent.is_none() && !state.by_default() => "on_until_boot",
        (true, true) => "on",
        (true, false) if layout.mode() == Mode::V2 => "off",
        (true, false) => "off_v1",
    };
    let one_way = if state.one_way { " (one-way until reboot from Linux 6.18 on)" } else { "" };
    Verdict::of("cgroup.favordynmods", case)
        .with("source", source)
        .with("one_way", one_way)
        .figure("state", serde_json::to_value(&state).unwrap_or_default())
}
