//! Limits of the host that many containers may reach.

use super::verdict::Level::{Error, Good, Note, Warning};
use super::verdict::{Section, Verdict};
use crate::facts::{Facts, mounts};

/// The kinds of namespaces with a per-user limit (namespaces(7)).
const NAMESPACES: [&str; 8] = ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"];

/// Returns the verdicts on limits.
#[must_use]
pub fn section(facts: &Facts) -> Section {
    let verdicts = vec![
        pids(facts),
        namespaces(facts),
        mount_max(facts),
        inotify(facts),
        files(facts),
        keyrings(facts),
    ];
    Section { title: "limits", verdicts }
}

fn sysctl(facts: &Facts, name: &str) -> Option<u64> {
    facts.number(&format!("/proc/sys/{}", name.replace('.', "/")))
}

fn unknown(about: (&'static str, &'static str)) -> Verdict {
    Verdict::new(about, Note, "not known", "its files can't be read")
}

fn pids(facts: &Facts) -> Verdict {
    let about = ("limits.pids", "processes");
    let (Some(pids), Some(threads)) =
        (sysctl(facts, "kernel.pid_max"), sysctl(facts, "kernel.threads-max"))
    else {
        return unknown(about);
    };
    let fact = format!("{pids} pids, {threads} threads");
    let verdict = match pids.min(threads) {
        0..=4096 => Verdict::new(about, Error, fact, "some hundred containers take all of them"),
        4097..=32_768 => {
            Verdict::new(about, Warning, fact, "some thousand containers take all of them")
        }
        _ => Verdict::new(about, Good, fact, "room for many thousand containers"),
    };
    verdict
        .fix_if(pids <= 32_768, "sysctl -w kernel.pid_max=4194304")
        .fix_if(threads <= 32_768, "sysctl -w kernel.threads-max=1048576")
        .figure("pid_max", pids)
        .figure("threads_max", threads)
}

fn namespaces(facts: &Facts) -> Verdict {
    let about = ("limits.namespaces", "namespaces of a user");
    let limits: Vec<(&str, u64)> = NAMESPACES
        .into_iter()
        .filter_map(|kind| Some((kind, sysctl(facts, &format!("user.max_{kind}_namespaces"))?)))
        .collect();
    let Some(least) = limits.iter().min_by_key(|(_, limit)| *limit) else { return unknown(about) };
    let none: Vec<&str> =
        limits.iter().filter(|(_, limit)| *limit == 0).map(|(kind, _)| *kind).collect();
    let fix = |kind: &str| format!("sysctl -w user.max_{kind}_namespaces=65536");
    let verdict = match (none.as_slice(), least) {
        (["user"], _) => Verdict::new(
            about,
            Warning,
            "no user namespaces",
            "containers with ids of their own can't start, nor any of users other than root",
        )
        .fix(fix("user")),
        ([first, ..], _) => Verdict::new(
            about,
            Error,
            format!("no {} namespaces", none.join(", ")),
            "containers that ask for these can't start",
        )
        .fix(fix(first)),
        ([], (kind, limit)) if *limit < 1000 => Verdict::new(
            about,
            Warning,
            format!("at most {limit} of {kind}"),
            "each container takes one of each kind",
        )
        .fix(fix(kind)),
        ([], (_, limit)) => {
            let fact = format!("{limit} or more of each kind");
            Verdict::new(about, Good, fact, "each container takes one of each kind")
        }
    };
    limits.iter().fold(verdict, |verdict, (kind, limit)| verdict.figure(kind, *limit))
}

fn mount_max(facts: &Facts) -> Verdict {
    let about = ("limits.mounts", "mounts of a namespace");
    let Some(most) = sysctl(facts, "fs.mount-max") else { return unknown(about) };
    let table = facts.text("/proc/self/mountinfo").unwrap_or_default();
    let count = mounts(&table).len() as u64;
    let fact = format!("{most}, {count} in use");
    let verdict = match count.saturating_mul(2) > most {
        true => Verdict::new(about, Warning, fact, "beyond it mount fails with ENOSPC")
            .fix("sysctl -w fs.mount-max=1000000, and look for mounts that leaked"),
        false => Verdict::new(about, Good, fact, "runtimes that copy the table double it"),
    };
    verdict.figure("mount_max", most)
}

fn inotify(facts: &Facts) -> Verdict {
    let about = ("limits.inotify", "inotify");
    let (Some(instances), Some(watches)) = (
        sysctl(facts, "fs.inotify.max_user_instances"),
        sysctl(facts, "fs.inotify.max_user_watches"),
    ) else {
        return unknown(about);
    };
    let fact = format!("{instances} instances, {watches} watches per user");
    let (few, small) = (instances <= 128, watches < 65_536);
    let verdict = match few || small {
        true => Verdict::new(
            about,
            Warning,
            fact,
            "each monitor takes one: \"too many open files\" from 100 on",
        )
        .fix_if(few, "sysctl -w fs.inotify.max_user_instances=8192")
        .fix_if(small, "sysctl -w fs.inotify.max_user_watches=524288"),
        false => Verdict::new(about, Good, fact, "enough for some thousand containers"),
    };
    verdict.figure("instances", instances).figure("watches", watches)
}

fn files(facts: &Facts) -> Verdict {
    let about = ("limits.files", "open files");
    let limits = facts.text("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let mut numbers = line.into_iter().flat_map(str::split_whitespace);
    let mut next = || match numbers.next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse::<u64>().ok(),
    };
    let (Some(soft), Some(hard)) = (next(), next()) else { return unknown(about) };
    let all = sysctl(facts, "fs.file-max").unwrap_or(u64::MAX);
    let bounded = |limit: u64| match limit {
        limit if limit > 1 << 40 => "no end".to_owned(),
        limit => limit.to_string(),
    };
    let fact = format!("{} to {} a process, {} in all", bounded(soft), bounded(hard), bounded(all));
    let verdict = match hard < 4096 {
        true => Verdict::new(about, Warning, fact, "an engine uses some for each container")
            .fix("LimitNOFILE=1048576 in the engine's unit, or ulimit -Hn 1048576"),
        false => Verdict::new(about, Good, fact, "dayfly needs a few dozen a start"),
    };
    verdict.figure("soft", soft).figure("hard", hard)
}

fn keyrings(facts: &Facts) -> Verdict {
    let about = ("limits.keys", "keyrings");
    let (Some(root), Some(user)) =
        (sysctl(facts, "kernel.keys.root_maxkeys"), sysctl(facts, "kernel.keys.maxkeys"))
    else {
        return unknown(about);
    };
    let fact = format!("{root} for root, {user} for others");
    let verdict = match root < 10_000 {
        true => Verdict::new(about, Warning, fact, "each container has a session keyring")
            .fix("sysctl -w kernel.keys.root_maxkeys=1000000"),
        false => Verdict::new(about, Good, fact, "each container has a session keyring"),
    };
    verdict.figure("root_maxkeys", root).figure("maxkeys", user)
}
