//! Init between clone and exec, either in the runtime's memory or in its own: the processes that
//! can access init, the properties that init inherits, and the remains if init or the runtime is
//! killed.

use crate::blank::{rich, ways, with_capabilities, without};
use dayfly_tests::bed::Bed;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Running;
use dayfly_tests::view::View;
use dayfly_tests::{case, leak, wait};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, listen, socket};
use rustix::process::Signal;
use serde_json::json;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(no_descriptor_leaks).unlike_runc(),
    case!(own_oom_score_is_kept).unlike_runc(),
    case!(waiting_init_is_closed_to_exec).unlike_runc(),
    case!(exec_while_it_is_made_is_refused).unlike_runc(),
    case!(hooks_inside_do_not_reach_the_runtime),
    case!(hooks_inside_find_no_way_to_the_host),
    case!(deep_directories_are_copied_up),
    case!(copied_up_files_are_charged_to_the_container).on(&[View::V1, View::Hybrid]),
    case!(killed_at_any_moment).unlike_runc().alone(),
    case!(hundred_at_once_leave_no_network_namespace).alone(),
];

/// Returns the descriptors of a process and their link targets.
fn descriptors(pid: i32) -> Vec<(String, String)> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors").flatten();
    let name = |path: &Path| path.to_string_lossy().into_owned();
    let mut all: Vec<_> = entries
        .map(|entry| (name(entry.file_name().as_ref()), fs::read_link(entry.path())))
        .map(|(number, link)| (number, link.map(|link| name(&link)).unwrap_or_default()))
        .collect();
    all.sort_by_key(|(number, _)| number.parse::<u32>().unwrap_or_default());
    all
}

fn no_descriptor_leaks(bed: &Bed) {
    let c = rich(bed.bundle()).args(&["/bin/sleep", "1000"]).make();
    let pid_file = bed.dir.join("pid");
    let pid_arg = pid_file.to_str().expect("path");
    let numbers = |pid: i32| descriptors(pid).into_iter().map(|(number, _)| number);
    for way in ways() {
        without(c.bundle_call("create", &[]), &way).run().ok();
        let pid = c.pid();
        // `state` connects to the socket that init waits on, so init has another socket for a moment.
        wait::until_true(&format!("one socket alone, without {way}"), || {
            let waiting = descriptors(pid);
            waiting.len() == 4 && waiting[3].1.starts_with("socket:")
        });
        c.start().ok();
        assert!(numbers(c.pid()).eq(["0", "1", "2"]), "without {way}: {:?}", descriptors(c.pid()));
        let call = c.id_call("exec", &["--pid-file", pid_arg], &["sleep", "1000"]);
        let running = without(call, &way).spawn();
        let pid = wait::until("the program of exec", || {
            let pid = fs::read_to_string(&pid_file).ok()?.trim().parse().ok()?;
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            (name == "sleep\n").then_some(pid)
        });
        assert!(numbers(pid).eq(["0", "1", "2"]), "exec without {way}: {:?}", descriptors(pid));
        c.kill("KILL").ok();
        let _ = running.wait();
        fs::remove_file(&pid_file).expect("remove");
        c.delete_force().ok();
        without(c.bundle_call("run", &["--detach"]), &way).run().ok();
        assert!(numbers(c.pid()).eq(["0", "1", "2"]), "without {way}: {:?}", descriptors(c.pid()));
        c.delete_force().ok();
    }
}

fn own_oom_score_is_kept(bed: &Bed) {
    // Processes that share memory share the OOM score, so the runtime sets its own score again afterwards.
    let c = bed.bundle().set("/process/oomScoreAdj", json!(500)).sh("echo up; sleep 1000").make();
    let score = |pid: i32| fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).expect("score");
    for way in ways() {
        let running = without(c.bundle_call("run", &[]), &way).spawn();
        wait::until_true("the program", || running.stdout().contains("up"));
        // The runtime restores its own score after it has seen the program start.
        wait::until_true("the container", || c.id_call("state", &[], &[]).run().code() == 0);
        assert_eq!(score(c.pid()), "500\n", "without {way}");
        let runtime = running.pid().as_raw_nonzero().get();
        let own = score(std::process::id().cast_signed());
        wait::until_true("its own score", || score(runtime) == own);
        c.kill("KILL").ok();
        let _ = running.wait();
    }
}

fn waiting_init_is_closed_to_exec(bed: &Bed) {
    let c = bed.bundle().make();
    let script = "cat /proc/1/environ; head -c 1 /proc/1/mem; cat /proc/1/maps; \
                  ls /proc/1/cwd/ /proc/1/root/; readlink /proc/1/exe; echo x >/proc/1/mem";
    for way in ways() {
        let call = c.bundle_call("create", &[]).env("SECRET_OF_THE_HOST", "hunter2");
        without(call, &way).run().ok();
        let outcome = c.sh(script);
        assert_eq!(outcome.stdout, "", "without {way}: {outcome}");
        c.start().ok();
        c.delete_force().ok();
    }
}

fn exec_while_it_is_made_is_refused(bed: &Bed) {
    // The receiver of init's pidfd accepts no connection. Thus init exists and is recorded, while the runtime is
    // blocked.
    let (path, pid_file) = (bed.dir.join("pidfd.sock"), bed.dir.join("pid"));
    let address = SocketAddrUnix::new(&path).expect("address");
    let stream = || socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("socket");
    let c = bed.bundle().make();
    for way in ways() {
        let _ = fs::remove_file(&path);
        let listener = stream();
        bind(&listener, &address).and_then(|()| listen(&listener, 0)).expect("listen");
        let filler = stream();
        connect(&filler, &address).expect("connect");
        let _ = fs::remove_file(&pid_file);
        let text = |path: &Path| path.to_str().expect("path").to_owned();
        let flags = ["--pidfd-socket", &text(&path), "--pid-file", &text(&pid_file)];
        let create = without(c.bundle_call("create", &flags), &way).spawn();
        // The pid file is written before the pidfd is sent.
        wait::until_true("init", || pid_file.exists());
        // As with runc and crun, no command sees the container before it is complete.
        let none = "container does not exist";
        c.exec(&["true"]).fails_as(255, none);
        for command in ["start", "state", "pause", "resume", "delete", "ps"] {
            c.id_call(command, &[], &[]).run().fails(none);
        }
        assert_eq!(bed.call(&["list", "--quiet"]).run().ok().stdout, "");
        let _held = [(); 2].map(|()| rustix::net::accept(&listener).expect("accept"));
        create.wait().ok();
        c.exec(&["true"]).ok();
        c.delete_force().ok();
    }
}

/// A hook that runs in the container may trace init if the container has CAP_SYS_PTRACE. The hook must not reach the
/// memory of the runtime outside.
fn hooks_inside_do_not_reach_the_runtime(bed: &Bed) {
    // Writes to the last bytes of init's first writable mapping, and prints the address.
    let script = r#"end=$(awk '$2 ~ /^rw/ { sub(".*-", "", $1); print $1; exit }' /proc/1/maps)
        at=$((0x$end - 64))
        printf REACHED | dd of=/proc/1/mem bs=1 seek=$at conv=notrunc && echo $at >/tmp/at
        echo done >/tmp/done; sleep 1000"#;
    let hook = json!({ "path": "/bin/sh", "args": ["sh", "-c", script], "env": ["PATH=/bin"] });
    let c = with_capabilities(bed.bundle(), &["CAP_SYS_PTRACE"])
        .push("/hooks/startContainer", hook)
        .make();
    let (done, at) = (c.bundle.join("rootfs/tmp/done"), c.bundle.join("rootfs/tmp/at"));
    for way in ways() {
        let running = without(c.bundle_call("run", &[]), &way).spawn();
        wait::until_true("the hook", || done.exists());
        let place = fs::read_to_string(&at).ok().and_then(|text| text.trim().parse().ok());
        let mut bytes = [0; 7];
        let runtime = format!("/proc/{}/mem", running.pid().as_raw_nonzero());
        if let (Some(place), Ok(memory)) = (place, fs::File::open(runtime)) {
            let _ = memory.read_exact_at(&mut bytes, place);
        }
        c.delete_force().ok();
        let _ = running.wait();
        assert_ne!(&bytes, b"REACHED", "a hook wrote to the runtime's memory, without {way}");
        fs::remove_file(&done).expect("remove");
    }
}

fn hooks_inside_find_no_way_to_the_host(bed: &Bed) {
    // Init's descriptors lead nowhere on the host. `hostile::descriptors` tests this for the process of an exec.
    let marker = bed.dir.display();
    let script = format!(
        "for f in /proc/1/fd/*; do
            for up in . .. ../.. ../../..; do test -e $f/$up{marker} && echo $f/$up; done
            test -d $f && ls $f
         done >/tmp/found 2>&1; test -e /proc/1/fd/0 && echo done >>/tmp/found"
    );
    let hook = json!({ "path": "/bin/sh", "args": ["sh", "-c", script], "env": ["PATH=/bin"] });
    let c = with_capabilities(bed.bundle(), &["CAP_SYS_PTRACE"])
        .push("/hooks/startContainer", hook)
        .make();
    for way in ways() {
        for verb in [&["create"][..], &["run", "--detach"]] {
            without(c.bundle_call(verb[0], &verb[1..]), &way).run().ok();
            if verb[0] == "create" {
                c.start().ok();
            }
            let found = fs::read_to_string(c.bundle.join("rootfs/tmp/found")).expect("found");
            assert_eq!(found, "done\n", "{verb:?} without {way}");
            c.delete_force().ok();
        }
    }
}

fn deep_directories_are_copied_up(bed: &Bed) {
    const DEPTH: usize = 200;
    let bundle = bed.bundle();
    let deepest = bundle.rootfs().join("deep").join("d/".repeat(DEPTH));
    fs::create_dir_all(&deepest).expect("make");
    fs::write(deepest.join("file"), "here\n").expect("write");
    let c = bundle
        .mount("tmpfs", "tmpfs", "/deep", &["tmpcopyup"])
        .sh(&format!("cat /deep/{}file", "d/".repeat(DEPTH)))
        .make();
    for way in ways() {
        let outcome = without(c.bundle_call("run", &[]), &way).run().ok();
        assert_eq!(outcome.stdout, "here\n", "without {way}");
    }
}

fn copied_up_files_are_charged_to_the_container(bed: &Bed) {
    const SIZE: usize = 8 << 20;
    let bundle = bed.bundle();
    fs::create_dir(bundle.rootfs().join("copied")).expect("make");
    fs::write(bundle.rootfs().join("copied/file"), vec![1; SIZE]).expect("write");
    let c = bundle.mount("tmpfs", "tmpfs", "/copied", &["tmpcopyup"]).make();
    for way in ways() {
        without(c.bundle_call("run", &["--detach"]), &way).run().ok();
        let used: usize = c.cgroup_read("memory", "memory.usage_in_bytes").parse().expect("bytes");
        assert!(used >= SIZE, "{used} bytes charged, without {way}");
        c.delete_force().ok();
    }
}

/// Returns the kernel's number of network namespaces, approximately: other processes also create and free some.
fn network_namespaces() -> Option<usize> {
    let slabs = fs::read_to_string("/proc/slabinfo").ok()?;
    slabs
        .lines()
        .find(|line| line.starts_with("net_namespace "))?
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// Waits until at most `slack` network namespaces remain.
#[track_caller]
fn assert_network_namespaces_go(before: Option<usize>, slack: usize) {
    let Some(before) = before else { return };
    wait::until_true(&format!("no more network namespaces than {before} + {slack}"), || {
        network_namespaces().is_none_or(|now| now < before + slack)
    });
}

/// Sends SIGKILL at time `after` since the start of the call.
fn kill_after(running: Running, after: Duration) {
    let start = Instant::now();
    // Sleeping is too coarse for steps of a few microseconds.
    while start.elapsed() < after {
        std::hint::spin_loop();
    }
    running.signal(Signal::KILL);
    let _ = running.wait();
}

fn killed_at_any_moment(bed: &Bed) {
    const ROUNDS: u32 = 40;
    let before = network_namespaces();
    let c = rich(bed.bundle()).make();
    // A fixed pseudo-random sequence (Knuth's MMIX), so that failures are reproducible.
    let mut random = 2026_u64;
    for round in 0..2 * ROUNDS {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let after = Duration::from_micros((random >> 33) % 4000);
        let verb = if round % 2 == 0 { "run" } else { "create" };
        kill_after(c.bundle_call(verb, &[]).spawn(), after);
        c.delete_force().ok();
        assert!(!bed.root().join(&c.id).exists(), "{verb} killed after {after:?}: record left");
        let ids = [c.id.clone()];
        // The process that makes the network namespace has the command line of the runtime call that started it.
        wait::until_true(&format!("nothing left of {verb} killed after {after:?}"), || {
            leak::find(bed.view, &bed.dir, &ids).is_empty()
        });
    }
    assert_network_namespaces_go(before, 25);
}

fn hundred_at_once_leave_no_network_namespace(bed: &Bed) {
    let before = network_namespaces();
    let all: Vec<Container<'_>> =
        (0..100).map(|number| rich(bed.bundle()).sh(&format!("echo {number}")).make()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(c) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            let said = c.run().ok().stdout;
            assert_eq!(
                said.trim().parse::<usize>().ok().map(|number| &all[number].id),
                Some(&c.id)
            );
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..16).map(|_| scope.spawn(work)).collect();
        let failed = workers.into_iter().filter_map(|worker| worker.join().err()).count();
        assert_eq!(failed, 0, "workers that failed");
    });
    let ids: Vec<String> = all.iter().map(|c| c.id.clone()).collect();
    wait::until_none("left by the crowd", || leak::find(bed.view, &bed.dir, &ids));
    assert_network_namespaces_go(before, 50);
}
