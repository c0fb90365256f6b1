//! Limits of the host that many containers may reach.

use super::verdict::{Section, Verdict};
use crate::facts::{Facts, NAMESPACES, mounts};

/// Returns the verdicts on limits.
pub fn section(facts: &Facts) -> Section {
    let all = [
        ("limits.pids", pids(facts)),
        ("limits.namespaces", namespaces(facts)),
        ("limits.mounts", mount_max(facts)),
        ("limits.inotify", inotify(facts)),
        ("limits.files", files(facts)),
        ("limits.keys", keyrings(facts)),
    ];
    let known =
        |(id, verdict): (_, Option<_>)| verdict.unwrap_or_else(|| Verdict::of(id, "unknown"));
    Section { title: "limits", verdicts: all.into_iter().map(known).collect() }
}

fn sysctl(facts: &Facts, name: &str) -> Option<u64> {
    facts.number(&format!("/proc/sys/{}", name.replace('.', "/")))
}

fn pids(facts: &Facts) -> Option<Verdict> {
    let pids = sysctl(facts, "kernel.pid_max")?;
    let threads = sysctl(facts, "kernel.threads-max")?;
    let case = match pids.min(threads) {
        0..=4096 => "hundreds",
        4097..=32_768 => "thousands",
        _ => "enough",
    };
    let verdict = Verdict::of("limits.pids", case)
        .fix_if(pids <= 32_768, "sysctl -w kernel.pid_max=4194304")
        .fix_if(threads <= 32_768, "sysctl -w kernel.threads-max=1048576");
    Some(verdict.figure("pid_max", pids).figure("threads_max", threads))
}

/// Checks the limits on the namespaces of a user (namespaces(7)).
fn namespaces(facts: &Facts) -> Option<Verdict> {
    let limit = |kind| Some((kind, sysctl(facts, &format!("user.max_{kind}_namespaces"))?));
    let limits: Vec<(&str, u64)> = NAMESPACES.into_iter().filter_map(limit).collect();
    let (kind, least) = *limits.iter().min_by_key(|(_, limit)| *limit)?;
    let none: Vec<&str> =
        limits.iter().filter(|(_, limit)| *limit == 0).map(|(kind, _)| *kind).collect();
    let case = match none.as_slice() {
        ["user"] => "no_users",
        [_, ..] => "missing",
        [] if least < 1000 => "few",
        [] => "enough",
    };
    let verdict = Verdict::of("limits.namespaces", case)
        .with("none", none.join(", "))
        .with("kind", kind)
        .with("least", least);
    Some(limits.iter().fold(verdict, |verdict, (kind, limit)| verdict.figure(kind, *limit)))
}

fn mount_max(facts: &Facts) -> Option<Verdict> {
    let most = sysctl(facts, "fs.mount-max")?;
    let count = mounts(&facts.text("/proc/self/mountinfo").unwrap_or_default()).len() as u64;
    let case = if count.saturating_mul(2) > most { "near" } else { "enough" };
    Some(Verdict::of("limits.mounts", case).with("count", count).figure("mount_max", most))
}

fn inotify(facts: &Facts) -> Option<Verdict> {
    let instances = sysctl(facts, "fs.inotify.max_user_instances")?;
    let watches = sysctl(facts, "fs.inotify.max_user_watches")?;
    let (few, small) = (instances <= 128, watches < 65_536);
    let verdict = Verdict::of("limits.inotify", if few || small { "few" } else { "enough" })
        .fix_if(few, "sysctl -w fs.inotify.max_user_instances=8192")
        .fix_if(small, "sysctl -w fs.inotify.max_user_watches=524288");
    Some(verdict.figure("instances", instances).figure("watches", watches))
}

fn files(facts: &Facts) -> Option<Verdict> {
    let limits = facts.text("/proc/self/limits").unwrap_or_default();
    let mut numbers =
        limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace();
    let mut next = || match numbers.next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse::<u64>().ok(),
    };
    let (soft, hard) = (next()?, next()?);
    let bounded = |limit: u64| match limit {
        limit if limit > 1 << 40 => "no end".to_owned(),
        limit => limit.to_string(),
    };
    let verdict = Verdict::of("limits.files", if hard < 4096 { "few" } else { "enough" })
        .with("from", bounded(soft))
        .with("to", bounded(hard))
        .with("all", bounded(sysctl(facts, "fs.file-max").unwrap_or(u64::MAX)));
    Some(verdict.figure("soft", soft).figure("hard", hard))
}

fn keyrings(facts: &Facts) -> Option<Verdict> {
    let root = sysctl(facts, "kernel.keys.root_maxkeys")?;
    let user = sysctl(facts, "kernel.keys.maxkeys")?;
    let verdict = Verdict::of("limits.keys", if root < 10_000 { "few" } else { "enough" });
    Some(verdict.figure("root_maxkeys", root).figure("maxkeys", user))
}
