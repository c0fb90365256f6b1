//! Scheduler, memory and exec attributes of a process: `process.scheduler`, `ioPriority`, `execCPUAffinity`,
//! `linux.personality` and `memoryPolicy`, for init and for exec.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::view::View;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(personality),
    case!(personality_unknown),
    case!(personality_flags).unlike_runc(),
    case!(scheduler),
    case!(real_time_scheduler).on(&[View::V2]),
    case!(deadline_scheduler).on(&[View::V2]),
    case!(scheduler_beyond_the_kernel),
    case!(scheduler_refused),
    case!(deadlines_that_can_not_be).unlike_runc(),
    case!(scheduler_of_exec),
    case!(io_priority),
    case!(io_priority_refused),
    case!(affinity_of_exec).needs(two_cpus),
    case!(affinity_is_not_the_containers).needs(two_cpus),
    case!(affinity_of_a_process_file).needs(two_cpus),
    case!(affinity_of_missing_cpus),
    case!(affinity_refused),
    case!(cpus_above_1023).unlike_runc(),
    case!(memory_policy).needs(numa),
    case!(memory_policy_flags).needs(numa),
    case!(memory_policy_of_missing_nodes).needs(numa),
    case!(memory_policy_refused),
    case!(deadline_in_a_part_of_the_cpus).on(&[dayfly_tests::view::View::V1]),
];

fn two_cpus() -> Result<(), String> {
    match std::thread::available_parallelism() {
        Ok(count) if count.get() > 1 => Ok(()),
        _ => Err("one CPU".to_owned()),
    }
}

fn numa() -> Result<(), String> {
    match Path::new("/proc/self/numa_maps").exists() {
        true => Ok(()),
        false => Err("a kernel without NUMA".to_owned()),
    }
}

const MACHINE: &[&str] = &["/bin/uname", "-m"];
const STAT: &[&str] = &["/bin/cat", "/proc/self/stat"];
const IO: &[&str] = &["/bin/busybox", "ionice"];
const CPUS: &[&str] = &["grep", "Cpus_allowed_list", "/proc/self/status"];
const NUMA: &[&str] = &["/bin/cat", "/proc/self/numa_maps"];

/// Runs `args` with these properties as a container's program, and by exec. Returns both outputs.
fn both(bed: &Bed, properties: &[(&str, &Value)], args: &[&str]) -> [String; 2] {
    let bundle = || {
        let mut bundle = bed.bundle();
        for (pointer, value) in properties {
            bundle = bundle.set(pointer, (*value).clone());
        }
        bundle
    };
    let own = bundle().args(args).make().run().ok().stdout;
    [own, bundle().make().detached().exec(args).ok().stdout]
}

/// Returns nice value, real-time priority and policy: fields 19, 40 and 41 of proc_pid_stat(5).
fn scheduling(stat: &str) -> [i64; 3] {
    let rest = stat.rsplit(')').next().expect("stat");
    let fields: Vec<&str> = rest.split_whitespace().collect();
    [16, 37, 38].map(|index: usize| fields[index].parse().expect("number"))
}

fn refused(bed: &Bed, pointer: &str, value: Value, text: &str) {
    let c = bed.bundle().set(pointer, value).make();
    c.create().fails(text);
    assert!(!c.exists());
}

fn personality(bed: &Bed) {
    let host = rustix::system::uname().machine().to_string_lossy().into_owned();
    let of = |domain: &str| {
        let personality = json!({ "domain": domain });
        both(bed, &[("/linux/personality", &personality)], MACHINE)
    };
    assert_eq!(of("LINUX"), [(); 2].map(|()| format!("{host}\n")));
    let [own, exec] = of("LINUX32");
    assert_eq!(own, exec);
    assert!(["i686\n", "armv8l\n"].contains(&own.as_str()), "{own}");
}

fn personality_unknown(bed: &Bed) {
    let domain = json!({ "domain": "IRIX" });
    refused(bed, "/linux/personality", domain, "invalid personality domain IRIX");
}

fn personality_flags(bed: &Bed) {
    let flags = json!({ "domain": "LINUX", "flags": ["ADDR_NO_RANDOMIZE"] });
    refused(bed, "/linux/personality", flags, "\"ADDR_NO_RANDOMIZE\" is not supported");
}

fn scheduler(bed: &Bed) {
    for (policy, nice, number) in [("SCHED_BATCH", 5, 3), ("SCHED_OTHER", -7, 0)] {
        let scheduler = json!({ "policy": policy, "nice": nice });
        for stat in both(bed, &[("/process/scheduler", &scheduler)], STAT) {
            assert_eq!(scheduling(&stat), [nice, 0, number], "{policy}");
        }
    }
    let idle = json!({ "policy": "SCHED_IDLE" });
    let c = bed.bundle().set("/process/scheduler", idle).args(STAT).make();
    assert_eq!(scheduling(&c.run().ok().stdout)[2], 5);
}

fn real_time_scheduler(bed: &Bed) {
    for (policy, number) in [("SCHED_FIFO", 1), ("SCHED_RR", 2)] {
        let scheduler = json!({ "policy": policy, "priority": 10 });
        // This user may not set a real-time policy, so the policy must be set before the user changes.
        let user = json!({ "uid": 1000, "gid": 1000 });
        let properties = [("/process/scheduler", &scheduler), ("/process/user", &user)];
        for stat in both(bed, &properties, STAT) {
            assert_eq!(scheduling(&stat)[1..], [10, number], "{policy}");
        }
    }
}

fn deadline_scheduler(bed: &Bed) {
    let scheduler = json!({
        "policy": "SCHED_DEADLINE", "flags": ["SCHED_FLAG_RESET_ON_FORK"],
        "runtime": 10_000_000, "deadline": 50_000_000, "period": 100_000_000,
    });
    let c = bed.bundle().set("/process/scheduler", scheduler).args(STAT).make();
    assert_eq!(scheduling(&c.run().ok().stdout)[2], 6);
}

/// An error that only the kernel detects names the step and the call.
fn deadlines_that_can_not_be(bed: &Bed) {
    for (runtime, deadline, period) in [(30, 20, 40), (20, 50, 40), (0, 20, 40), (30, 0, 0)] {
        let scheduler = json!({
            "policy": "SCHED_DEADLINE", "runtime": runtime * 1_000_000,
            "deadline": deadline * 1_000_000, "period": period * 1_000_000,
        });
        let c = bed.bundle().set("/process/scheduler", scheduler).make();
        c.create().fails("SCHED_DEADLINE takes 0 < runtime <= deadline <= period");
        c.assert_gone("times that can't be");
    }
}

fn scheduler_beyond_the_kernel(bed: &Bed) {
    let scheduler = json!({ "policy": "SCHED_FIFO", "priority": 1000 });
    let c = bed.bundle().set("/process/scheduler", scheduler).make();
    let outcome = c.create();
    assert_eq!(outcome.code(), 1, "{outcome}");
    assert!(outcome.stderr.contains("schedul") && outcome.stderr.contains("invalid argument"));
    assert!(!c.exists());
}

fn scheduler_refused(bed: &Bed) {
    for (scheduler, text) in [
        (json!({}), "scheduler policy is required"),
        (json!({ "policy": "SCHED_FAIR" }), "invalid scheduler policy: SCHED_FAIR"),
        (json!({ "policy": "SCHED_BATCH", "nice": 20 }), "invalid scheduler.nice: 20 when"),
        (json!({ "policy": "SCHED_IDLE", "priority": 1 }), "scheduler.priority can only be"),
        (json!({ "policy": "SCHED_FIFO", "runtime": 1 }), "scheduler runtime/deadline/period can"),
        (
            json!({ "policy": "SCHED_RR", "flags": ["SCHED_FLAG_NICE"] }),
            "invalid scheduler flag: SCHED_FLAG_NICE",
        ),
    ] {
        refused(bed, "/process/scheduler", scheduler, text);
    }
}

/// Settings in a process file take precedence; settings that the file lacks come from the container.
fn scheduler_of_exec(bed: &Bed) {
    let batch = json!({ "policy": "SCHED_BATCH", "nice": 3 });
    let c = bed.bundle().set("/process/scheduler", batch).make().detached();
    let mut process = json!({ "args": STAT, "cwd": "/", "env": ["PATH=/bin"] });
    assert_eq!(scheduling(&exec_file(bed, &c, &process)), [3, 0, 3]);
    process["scheduler"] = json!({ "policy": "SCHED_OTHER", "nice": 11 });
    assert_eq!(scheduling(&exec_file(bed, &c, &process)), [11, 0, 0]);
}

fn exec_file(bed: &Bed, c: &Container<'_>, process: &Value) -> String {
    let path = bed.dir.join("process.json");
    fs::write(&path, process.to_string()).expect("write process.json");
    c.id_call("exec", &["--process", path.to_str().expect("path")], &[]).run().ok().stdout
}

fn io_priority(bed: &Bed) {
    for (class, level, shown) in [
        ("IOPRIO_CLASS_BE", 6, "best-effort: prio 6\n"),
        ("IOPRIO_CLASS_RT", 2, "realtime: prio 2\n"),
        ("IOPRIO_CLASS_IDLE", 0, "idle\n"),
    ] {
        let priority = json!({ "class": class, "priority": level });
        let shown = [shown, shown];
        assert_eq!(both(bed, &[("/process/ioPriority", &priority)], IO), shown, "{class}");
    }
}

fn io_priority_refused(bed: &Bed) {
    let pointer = "/process/ioPriority";
    let level = json!({ "class": "IOPRIO_CLASS_BE", "priority": 8 });
    refused(bed, pointer, level, "invalid ioPriority.Priority: 8");
    let class = json!({ "class": "IOPRIO_CLASS_NONE", "priority": 0 });
    refused(bed, pointer, class, "invalid ioPriority.Class: \"IOPRIO_CLASS_NONE\"");
}

/// Returns the CPUs that `grep` printed.
fn cpus(line: &str) -> &str {
    line.split_whitespace().last().unwrap_or_default()
}

fn with_affinity(bed: &Bed, affinity: Value) -> String {
    let c = bed.bundle().set("/process/execCPUAffinity", affinity).make().detached();
    cpus(&c.exec(CPUS).ok().stdout).to_owned()
}

fn affinity_of_exec(bed: &Bed) {
    assert_eq!(with_affinity(bed, json!({ "final": "1" })), "1");
    assert_eq!(with_affinity(bed, json!({ "initial": "0", "final": "1" })), "1");
    assert_eq!(with_affinity(bed, json!({ "initial": "0", "final": "0-1" })), "0-1");
    // Without `final` the kernel chooses the CPUs: the cgroups of these cases have no cpuset of their own.
    assert_eq!(with_affinity(bed, json!({ "initial": "1" })), "1");
}

fn affinity_is_not_the_containers(bed: &Bed) {
    let own = fs::read_to_string("/proc/self/status").expect("status");
    let own = own.lines().find(|line| line.starts_with("Cpus_allowed_list")).expect("CPUs");
    let affinity = json!({ "initial": "0", "final": "0" });
    let c = bed.bundle().set("/process/execCPUAffinity", affinity).args(CPUS).make();
    assert_eq!(cpus(&c.run().ok().stdout), cpus(own));
}

fn affinity_of_a_process_file(bed: &Bed) {
    let c = bed.bundle().set("/process/execCPUAffinity", json!({ "final": "0" })).make().detached();
    let mut process = json!({ "args": CPUS, "cwd": "/", "env": ["PATH=/bin"] });
    assert_eq!(cpus(&exec_file(bed, &c, &process)), "0");
    process["execCPUAffinity"] = json!({ "final": "1" });
    assert_eq!(cpus(&exec_file(bed, &c, &process)), "1");
}

fn affinity_of_missing_cpus(bed: &Bed) {
    for key in ["initial", "final"] {
        let affinity = json!({ key: "1023" });
        let c = bed.bundle().set("/process/execCPUAffinity", affinity).make().detached();
        let outcome = c.exec(&["true"]).fails_as(255, "invalid argument");
        assert!(outcome.stderr.contains("1023") || outcome.stderr.contains("CPU affinity"));
        assert_eq!(c.status(), "running");
    }
}

/// CPUs above 1023 are refused rather than left out (runc #5343).
fn cpus_above_1023(bed: &Bed) {
    let cpus = json!("0,1024");
    let affinity = json!({ "final": cpus });
    let beyond = "values larger than 1023 are not supported";
    refused(bed, "/process/execCPUAffinity", affinity, beyond);
    let c = bed.bundle().make();
    c.run_with(&["--start-cpus", "0,1024"]).fails(beyond);
    assert!(!c.exists());
}

fn affinity_refused(bed: &Bed) {
    let pointer = "/process/execCPUAffinity";
    refused(
        bed,
        pointer,
        json!({ "initial": "3-1" }),
        "bad CPUAffinity.Initial: invalid range: 3-1",
    );
    refused(bed, pointer, json!({ "final": "x" }), "bad CPUAffinity.Final: ");
}

fn memory_policy(bed: &Bed) {
    for (mode, nodes, shown) in [
        ("MPOL_BIND", "0", " bind:0 "),
        ("MPOL_PREFERRED", "0", " prefer:0 "),
        ("MPOL_INTERLEAVE", "0", " interleave:0 "),
        ("MPOL_PREFERRED_MANY", "0", " prefer (many):0 "),
        ("MPOL_LOCAL", "", " local "),
        ("MPOL_DEFAULT", "", " default "),
    ] {
        let policy = json!({ "mode": mode, "nodes": nodes });
        for maps in both(bed, &[("/linux/memoryPolicy", &policy)], NUMA) {
            assert!(maps.contains(shown), "{mode}: {maps}");
        }
    }
}

fn memory_policy_flags(bed: &Bed) {
    let policy =
        json!({ "mode": "MPOL_INTERLEAVE", "nodes": "0", "flags": ["MPOL_F_STATIC_NODES"] });
    for maps in both(bed, &[("/linux/memoryPolicy", &policy)], NUMA) {
        assert!(maps.contains(" interleave=static:0 "), "{maps}");
    }
}

fn memory_policy_of_missing_nodes(bed: &Bed) {
    let policy = json!({ "mode": "MPOL_BIND", "nodes": "1000" });
    let c = bed.bundle().set("/linux/memoryPolicy", policy).make();
    c.create().fails("set_mempolicy: invalid argument");
    assert!(!c.exists());
}

fn memory_policy_refused(bed: &Bed) {
    for (policy, text) in [
        (json!({ "mode": "MPOL_BEST" }), "invalid memory policy mode \"MPOL_BEST\""),
        (json!({ "mode": "MPOL_BIND", "nodes": "a" }), "invalid memory policy nodes \"a\": "),
        (json!({ "mode": "MPOL_BIND" }), "requires at least one node but got 0"),
        (json!({ "mode": "MPOL_LOCAL", "nodes": "0" }), "requires 0 nodes but got 1"),
        (
            json!({ "mode": "MPOL_BIND", "nodes": "0", "flags": ["MPOL_F_NONE"] }),
            "invalid memory policy flag \"MPOL_F_NONE\"",
        ),
    ] {
        refused(bed, "/linux/memoryPolicy", policy, text);
    }
}

fn deadline_in_a_part_of_the_cpus(bed: &Bed) {
    let scheduler = json!({
        "policy": "SCHED_DEADLINE", "runtime": 1_000_000, "deadline": 10_000_000, "period": 10_000_000
    });
    let c = bed
        .bundle()
        .set("/process/scheduler", scheduler)
        .set("/linux/resources/cpu", json!({ "cpus": "0" }))
        .make();
    c.create().fails("process scheduler can't be used together with AllowedCPUs");
    assert!(!c.exists());
}
