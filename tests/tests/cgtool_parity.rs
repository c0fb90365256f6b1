//! Compares libcgroup's commands with `dayfly cgroup`: the same request leads to the same files, owners, permissions
//! and values. Each case is a row of docs/cgroup-tools.md.

use crate::cgtool::{Own, cgroup, tool};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Outcome;
use dayfly_tests::view::View;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const V1: &[View] = &[View::V1, View::Hybrid];

dayfly_tests::subject!(Lab, CASES);

const CASES: &[Case] = &[
    case!(cgcreate).on(V1).needs(libcgroup),
    case!(cgcreate_of_the_article).on(V1).needs(libcgroup),
    case!(cgcreate_owners).on(V1).needs(libcgroup),
    case!(cgcreate_modes).on(V1).needs(libcgroup),
    case!(cgset).on(V1).needs(libcgroup),
    case!(cgset_copy_from).on(V1).needs(libcgroup),
    case!(cgget).on(V1).needs(libcgroup),
    case!(cgclassify).on(V1).needs(libcgroup),
    case!(cgexec).on(V1).needs(libcgroup),
    case!(cgdelete).on(V1).needs(libcgroup),
    case!(cgconfigparser).on(V1).needs(libcgroup),
    case!(cgsnapshot).on(V1).needs(libcgroup),
    case!(lscgroup).on(V1).needs(libcgroup),
    case!(lssubsys).on(V1).needs(libcgroup),
    case!(cgclear).on(V1).needs(libcgroup),
];

fn libcgroup() -> Result<(), String> {
    tool()?;
    match Path::new("/usr/bin/cgcreate").exists() {
        true => Ok(()),
        false => Err("cgroup-tools is not installed".to_owned()),
    }
}

/// Runs a libcgroup program. libcgroup does not support cgroup v2 beside v1, so v2 is hidden from the program.
fn theirs(bed: &Bed, args: &[&str]) -> Outcome {
    let script = "while umount /sys/fs/cgroup/unified 2>/dev/null; do :; done; exec \"$@\"";
    let unshare = ["-m", "--propagation", "private", "sh", "-c", script, "sh"];
    bed.program("unshare", &[&unshare, args].concat()).run()
}

/// Returns the files of a group, with owners, permissions and settable values.
fn looks(own: &Own<'_>, controllers: &[&str], child: &str) -> Vec<String> {
    let mut all = Vec::new();
    for controller in controllers {
        let directory = own.directory(controller, child);
        let told = |name: &str, path: &Path| {
            let data = fs::metadata(path).expect("stat");
            let is_value = data.mode() & 0o600 == 0o600 && data.is_file();
            // Counters change while they are read.
            let counts = ["usage", "failcnt", "tasks", "procs", "slabinfo"];
            let value = match is_value && !counts.iter().any(|word| name.contains(word)) {
                true => fs::read_to_string(path).unwrap_or_default(),
                false => String::new(),
            };
            let (mode, user, group) = (data.mode(), data.uid(), data.gid());
            format!("{controller} {name} {mode:o} {user}:{group} {}", value.trim_end())
        };
        all.push(told(".", &directory));
        let mut names: Vec<_> = fs::read_dir(&directory)
            .expect("group")
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        all.extend(names.iter().map(|name| told(name, &directory.join(name))));
    }
    all
}

#[track_caller]
fn same(own: &Own<'_>, controllers: &[&str]) {
    let (one, other) = (looks(own, controllers, "theirs"), looks(own, controllers, "ours"));
    let differs: Vec<_> = one.iter().zip(&other).filter(|(one, other)| one != other).collect();
    assert!(differs.is_empty() && one.len() == other.len(), "{differs:#?}");
}

const THREE: &[&str] = &["cpu", "memory", "blkio"];

fn cgcreate(bed: &Bed) {
    let own = Own::new(bed);
    theirs(bed, &["cgcreate", "-g", &format!("cpu,memory,blkio:{}", own.child("theirs"))]).ok();
    cgroup(bed, &["create", "-g", &format!("cpu,memory,blkio:{}", own.child("ours")), "pids:/"])
        .exits(1);
    cgroup(bed, &["create", &format!("cpu,memory,blkio:{}", own.child("ours"))]).ok();
    same(&own, THREE);
    for group in ["theirs", "ours"] {
        assert!(!own.directory("pids", group).exists(), "{group}");
    }
}

/// Compares the commands that create the groups in the article on consolidation
/// (`lab/host/tests/fixtures/seed-002`), and one command that creates several groups.
fn cgcreate_of_the_article(bed: &Bed) {
    let own = Own::new(bed);
    let create = |group: &str, owner: &[&str], controllers: &[&str]| {
        let named = |what: &str| format!("{what}:{}", own.child(group));
        let named: Vec<String> = controllers.iter().map(|what| named(what)).collect();
        let groups = named.iter().flat_map(|name| ["-g", name]);
        let line: Vec<&str> = owner.iter().copied().chain(groups).collect();
        match group {
            "theirs" => theirs(bed, &[&["cgcreate"], &line[..]].concat()).ok(),
            _ => cgroup(bed, &[&["create"], &line[..]].concat()).ok(),
        };
    };
    for (owner, controllers) in [
        (&["-t", "daemon:daemon"][..], &["cpu"][..]),
        (&["-t", "daemon:bin", "-a", "sys:adm"], &["memory", "cpu,blkio"]),
        (&[], &["pids"]),
    ] {
        create("theirs", owner, controllers);
        create("ours", owner, controllers);
        let all: Vec<&str> = controllers.iter().flat_map(|all| all.split(',')).collect();
        same(&own, &all);
    }
    // dayfly gives a new cpuset its parent's CPUs at once (docs/cgroup-tools.md). Thus the values differ, but the
    // owners must be the same.
    create("theirs", &["-t", "daemon:daemon"], &["cpuset"]);
    create("ours", &["-t", "daemon:daemon"], &["cpuset"]);
    for file in [".", "tasks", "cpuset.cpus"] {
        let of = |group: &str| {
            let path = own.directory("cpuset", group).join(file);
            let data = fs::metadata(path).expect("stat");
            (data.mode(), data.uid(), data.gid())
        };
        assert_eq!(of("theirs"), of("ours"), "{file}");
    }
}

fn cgcreate_owners(bed: &Bed) {
    let own = Own::new(bed);
    let owners = ["-t", "daemon:bin", "-a", "sys:adm"];
    let (t, o) = (
        format!("cpu,memory:{}", own.child("theirs")),
        format!("cpu,memory:{}", own.child("ours")),
    );
    theirs(bed, &[&["cgcreate"], &owners[..], &["-g", &t]].concat()).ok();
    cgroup(bed, &[&["create"], &owners[..], &[&o]].concat()).ok();
    same(&own, &["cpu", "memory"]);
}

fn cgcreate_modes(bed: &Bed) {
    let own = Own::new(bed);
    let modes = ["-d", "700", "-f", "640", "-s", "660"];
    let (t, o) = (
        format!("cpu,memory:{}", own.child("theirs")),
        format!("cpu,memory:{}", own.child("ours")),
    );
    theirs(bed, &[&["cgcreate"], &modes[..], &["-g", &t]].concat()).ok();
    cgroup(bed, &[&["create"], &modes[..], &[&o]].concat()).ok();
    same(&own, &["cpu", "memory"]);
}

/// Makes one group for libcgroup and one for dayfly, in all hierarchies where the cases set values. dayfly makes both.
fn both(bed: &Bed, own: &Own<'_>) -> (String, String) {
    let (t, o) = (own.child("theirs"), own.child("ours"));
    let in_all = |group: &str| format!("cpu,memory,blkio,cpuset,pids,freezer:{group}");
    cgroup(bed, &["create", &in_all(&t), &in_all(&o)]).ok();
    (t, o)
}

const VALUES: &[&str] = &[
    "-r",
    "memory.limit_in_bytes=64M",
    "-r",
    "memory.soft_limit_in_bytes=1048576",
    "-r",
    "cpu.shares=300",
    "-r",
    "cpu.cfs_quota_us=20000",
    "-r",
    "cpuset.cpus=0",
    "-r",
    "cpuset.mems=0",
    "-r",
    "pids.max=30",
    "-r",
    "blkio.throttle.read_bps_device=254:0 1048576",
];

const SIX: &[&str] = &["cpu", "memory", "blkio", "cpuset", "pids"];

fn cgset(bed: &Bed) {
    let own = Own::new(bed);
    let (t, o) = both(bed, &own);
    theirs(bed, &[&["cgset"], VALUES, &[&t]].concat()).ok();
    cgroup(bed, &[&["set"], VALUES, &[&o]].concat()).ok();
    same(&own, SIX);
    assert_eq!(own.read("cpu", "ours", "cpu.shares"), "300");
    // Both refuse the same values.
    for wrong in ["cpuset.cpus=77", "memory.bogus=1", "cpu.shares=many"] {
        assert_ne!(theirs(bed, &["cgset", "-r", wrong, &t]).code(), 0, "{wrong}");
        assert_eq!(cgroup(bed, &["set", "-r", wrong, &o]).code(), 1, "{wrong}");
    }
}

fn cgset_copy_from(bed: &Bed) {
    let own = Own::new(bed);
    let (t, o) = both(bed, &own);
    let source = own.child("source");
    cgroup(bed, &["create", &format!("cpu,memory:{source}")]).ok();
    cgroup(bed, &["set", "-r", "cpu.shares=77", "-r", "memory.limit_in_bytes=64M", &source]).ok();
    // cgset fails at read-only files, after it has set the others.
    let _ = theirs(bed, &["cgset", "--copy-from", &source, &t]);
    cgroup(bed, &["set", "--copy-from", &source, &o]).ok();
    for group in ["theirs", "ours"] {
        assert_eq!(own.read("cpu", group, "cpu.shares"), "77", "{group}");
        assert_eq!(own.read("memory", group, "memory.limit_in_bytes"), "67108864", "{group}");
    }
}

fn cgget(bed: &Bed) {
    let own = Own::new(bed);
    let (group, _) = both(bed, &own);
    cgroup(bed, &["set", "-r", "cpu.shares=77", "-r", "memory.limit_in_bytes=64M", &group]).ok();
    for options in [
        &["-r", "cpu.shares", "-r", "memory.limit_in_bytes"][..],
        &["-n", "-r", "cpu.shares"],
        &["-nv", "-r", "cpu.shares", "-r", "cpuset.cpus"],
        &["-v", "-r", "pids.max"],
        &["-r", "memory.numa_stat"],
    ] {
        let one = theirs(bed, &[&["cgget"], options, &[&group]].concat()).ok().stdout;
        let other = cgroup(bed, &[&["get"], options, &[&group]].concat()).ok().stdout;
        assert_eq!(one, other, "{options:?}");
    }
    // All files of a controller: the same names, in alphabetical order.
    let names = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('\t'));
        let mut names: Vec<_> = lines
            .filter_map(|line| Some(line.split_once(": ")?.0.to_owned()))
            .filter(|name| name.starts_with("pids."))
            .collect();
        names.sort();
        names
    };
    let one = theirs(bed, &["cgget", "-g", "pids", &group]).ok().stdout;
    let other = cgroup(bed, &["get", "-g", "pids", &group]).ok().stdout;
    assert_eq!(names(&one), names(&other), "{one}\n{other}");
}

fn cgclassify(bed: &Bed) {
    let own = Own::new(bed);
    let (t, o) = both(bed, &own);
    for sticky in [&[][..], &["--sticky"]] {
        let sleepers = [(); 2].map(|()| bed.program("sleep", &["60"]).spawn());
        let pids = sleepers.each_ref().map(|running| running.pid().as_raw_nonzero().to_string());
        let g = |group: &str| format!("cpu,memory:{group}");
        theirs(bed, &[&["cgclassify"], sticky, &["-g", &g(&t), &pids[0]]].concat()).ok();
        cgroup(bed, &[&["classify"], sticky, &["-g", &g(&o), &pids[1]]].concat()).ok();
        let place = |pid: &str| fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("process");
        assert_eq!(place(&pids[0]).replace("/theirs", "/ours"), place(&pids[1]));
        for running in sleepers {
            running.signal(rustix::process::Signal::KILL);
            let _ = running.wait();
        }
    }
}

fn cgexec(bed: &Bed) {
    let own = Own::new(bed);
    let (t, o) = both(bed, &own);
    let g = |group: &str| format!("cpu,memory:{group}");
    let one = theirs(bed, &["cgexec", "-g", &g(&t), "cat", "/proc/self/cgroup"]).ok().stdout;
    let other = cgroup(bed, &["exec", "-g", &g(&o), "cat", "/proc/self/cgroup"]).ok().stdout;
    assert_eq!(one.replace("/theirs", "/ours"), other);
    let code = |outcome: Outcome| outcome.code();
    let ended = ["sh", "-c", "exit 7"];
    assert_eq!(code(theirs(bed, &[&["cgexec", "-g", &g(&t)], &ended[..]].concat())), 7);
    assert_eq!(code(cgroup(bed, &[&["exec", "-g", &g(&o)], &ended[..]].concat())), 7);
    // The request names several groups.
    let args =
        ["-g", &format!("cpu:{o}"), "-g", &format!("memory:{t}"), "cat", "/proc/self/cgroup"];
    let both = cgroup(bed, &[&["exec"], &args[..]].concat()).ok().stdout;
    assert_eq!(theirs(bed, &[&["cgexec"], &args[..]].concat()).ok().stdout, both);
}

fn cgdelete(bed: &Bed) {
    let own = Own::new(bed);
    let (t, o) = both(bed, &own);
    let sleepers = [&t, &o].map(|group| {
        let running = bed.program("sleep", &["60"]).spawn();
        let pid = running.pid().as_raw_nonzero().to_string();
        cgroup(bed, &["classify", "-g", &format!("pids:{group}"), &pid]).ok();
        (running, pid)
    });
    // The request names only one hierarchy: if it named several, cgdelete 2.0.2 would silently remove the group from
    // the first one only.
    theirs(bed, &["cgdelete", "-g", &format!("pids:{t}")]).ok();
    cgroup(bed, &["rm", "--move", &format!("pids:{o}")]).ok();
    let place = |pid: &str| fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("process");
    assert_eq!(place(&sleepers[0].1), place(&sleepers[1].1), "both in the parent");
    for (running, _) in sleepers {
        running.signal(rustix::process::Signal::KILL);
        let _ = running.wait();
    }
    for group in ["theirs", "ours"] {
        cgroup(bed, &["create", &format!("cpu:{}", own.child(&format!("{group}/deep/down")))]).ok();
    }
    assert_ne!(
        theirs(bed, &["cgdelete", "-g", &format!("cpu:{t}")]).code(),
        0,
        "has a group below"
    );
    assert_eq!(cgroup(bed, &["rm", &format!("cpu:{o}")]).code(), 1);
    theirs(bed, &["cgdelete", "-r", "-g", &format!("cpu:{t}")]).ok();
    cgroup(bed, &["rm", "-r", "--move", &format!("cpu:{o}")]).ok();
    assert!(!own.directory("cpu", "theirs").exists() && !own.directory("cpu", "ours").exists());
}

/// Returns a configuration file with one group, valid for libcgroup and dayfly.
fn config(group: &str) -> String {
    format!(
        "# a comment\ngroup {group} {{\n  perm {{\n    task {{ uid = daemon; gid = bin; fperm = 660; }}\n    \
         admin {{ uid = sys; gid = adm; dperm = 750; fperm = 640; }}\n  }}\n  \
         cpu {{\n    cpu.shares = \"300\";\n    cpu.cfs_quota_us = 20000;\n  }}\n  \
         memory {{ memory.limit_in_bytes = 67108864; }}\n  \
         cpuset {{ cpuset.cpus = 0-1; cpuset.mems = 0; }}\n}}\n"
    )
}

fn cgconfigparser(bed: &Bed) {
    let own = Own::new(bed);
    let file = |name: &str, group: &str| {
        let path = bed.dir.join(name);
        fs::write(&path, config(&own.child(group))).expect("write");
        path.to_str().expect("path").to_owned()
    };
    // cgconfigparser does not create parents.
    cgroup(bed, &["create", &own.name]).ok();
    theirs(bed, &["/usr/sbin/cgconfigparser", "-l", &file("theirs.conf", "theirs")]).ok();
    cgroup(bed, &["apply", &file("ours.conf", "ours")]).ok();
    same(&own, &["cpu", "memory", "cpuset"]);
}

fn cgsnapshot(bed: &Bed) {
    let own = Own::new(bed);
    let (t, _) = both(bed, &own);
    cgroup(bed, &[&["set"], VALUES, &[&t]].concat()).ok();
    let ours = cgroup(bed, &["snapshot", "--full", &t]).ok().stdout;
    let head = format!("group {t} {{");
    for (controller, name) in
        [("cpu", "cpu.shares"), ("memory", "memory.limit_in_bytes"), ("pids", "pids.max")]
    {
        // cgsnapshot writes every group of the host, and omits some if others are removed meanwhile.
        let section = dayfly_tests::wait::until("the group in cgsnapshot's output", || {
            let args = ["cgsnapshot", "-s", "-b", "/dev/null", controller];
            let text = theirs(bed, &args).stdout;
            let section = text.split(&head).nth(1)?.split("\ngroup ").next()?.to_owned();
            section.contains(name).then_some(section)
        });
        let value = |text: &str, mark: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(mark));
            let value = line.and_then(|line| line.split_once('=')).map(|(_, value)| value);
            value.map(|value| value.replace(['"', ';', ' '], ""))
        };
        let (one, other) = (value(&section, name), value(&ours, &format!("\"{name}\"")));
        assert!(one.is_some() && one == other, "{name}: {one:?} {other:?}\n{section}\n{ours}");
    }
}

fn lscgroup(bed: &Bed) {
    let own = Own::new(bed);
    let _ = both(bed, &own);
    let one = theirs(bed, &["lscgroup", "-g", &format!("cpu:{}", own.name)]).ok().stdout;
    let one: Vec<_> = one
        .lines()
        .filter_map(|line| Some(line.split_once(":/")?.1.trim_end_matches('/')))
        .collect();
    let other = cgroup(bed, &["ls", "--names", &format!("cpu:{}", own.name)]).ok().stdout;
    let (mut one, mut other) = (one, other.lines().collect::<Vec<_>>());
    one.sort_unstable();
    other.sort_unstable();
    assert_eq!(one, other);
}

/// `dayfly cgroup ls --hierarchies` is compared with the kernel's list of mounts, because lssubsys 2.0.2 shows no
/// mounted hierarchy on this kernel (exit code 82).
fn lssubsys(bed: &Bed) {
    let rows = cgroup(bed, &["ls", "--hierarchies"]).ok().stdout;
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    for line in mounts.lines().filter(|line| line.starts_with("cgroup ")) {
        let words: Vec<_> = line.split(' ').collect();
        let name = words[1].rsplit('/').next().expect("name");
        let row = rows.lines().find(|row| row.starts_with(&format!("{} ", words[1])));
        assert!(row.is_some_and(|row| row.contains(name)), "{line}\n{rows}");
    }
}

fn cgclear(bed: &Bed) {
    let own = Own::new(bed);
    let file = bed.dir.join("ours.conf");
    fs::write(&file, config(&own.child("ours"))).expect("write");
    let file = file.to_str().expect("path");
    cgroup(bed, &["apply", "--quiet", file]).ok();
    cgroup(bed, &["rm", "--plan", file]).ok();
    assert!(!own.directory("cpu", "ours").exists() && !own.directory("memory", "ours").exists());
}
