//! Many containers at once.

use dayfly_tests::bed::Bed;
use dayfly_tests::cache::OwnCache;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::leak::{self, Host};
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Call;
use dayfly_tests::seed::Seed;
use dayfly_tests::view::View;
use dayfly_tests::wait;
use host::follow::{Event, call_name};
use rustix::process::Signal;
use serde_json::json;
use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(hundred_created_then_started).alone(),
    case!(hundred_runs).alone(),
    case!(two_hundred_with_fifty_killed).alone().unlike_runc(),
    case!(same_id_at_once),
    case!(created_while_somebody_looks).unlike_runc(),
    case!(list_while_others_come_and_go),
    case!(directory_is_another_ones).unlike_runc(),
    case!(delete_at_once),
    case!(delete_waits_for_who_has_just_begun).unlike_runc(),
    case!(delete_while_it_is_made_again).unlike_runc(),
    case!(delete_at_once_what_changes).on(&[View::V2]).unlike_runc(),
    case!(delete_waits_for_who_is_at_work).unlike_runc(),
    case!(start_at_once).unlike_runc(),
];

/// Calls `work` with each number below `count`, on 16 threads; a panic in one of them fails the case.
fn crowd(count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count {
                            return;
                        }
                        work(number);
                    }
                })
            })
            .collect();
        let failed: Vec<_> = workers.into_iter().filter_map(|worker| worker.join().err()).collect();
        let why = |panic: &Box<dyn Any + Send>| panic.downcast_ref::<String>().cloned();
        let reasons: Vec<String> = failed.iter().filter_map(why).collect();
        assert!(failed.is_empty(), "{} workers failed:\n{}", failed.len(), reasons.join("\n"));
    });
}

/// Returns `count` containers with the same configuration, except for a number in the script.
fn containers<'a>(bed: &'a Bed, count: usize, script: &str) -> Vec<Container<'a>> {
    (0..count)
        .map(|number| bed.bundle().sh(&script.replace("NUMBER", &number.to_string())).make())
        .collect()
}

fn hundred_created_then_started(bed: &Bed) {
    let all = containers(bed, 100, "echo NUMBER >/done; sleep 1000");
    crowd(all.len(), |number| {
        all[number].create().ok();
    });
    assert_eq!(bed.call(&["list", "-q"]).run().ok().lines().len(), 100);
    crowd(all.len(), |number| {
        all[number].start().ok();
    });
    for (number, c) in all.iter().enumerate() {
        let done = c.bundle.join("rootfs/done");
        dayfly_tests::wait::until_true("every program to run", || {
            std::fs::read_to_string(&done).is_ok_and(|text| text.trim() == number.to_string())
        });
    }
    crowd(all.len(), |number| {
        all[number].delete_force().ok();
    });
    assert_eq!(bed.call(&["list", "-q"]).run().ok().stdout, "");
}

fn hundred_runs(bed: &Bed) {
    let all = containers(bed, 100, "echo hello NUMBER; exit $((NUMBER % 50))");
    crowd(all.len(), |number| {
        let outcome = all[number].run().exits(i32::try_from(number % 50).expect("code"));
        assert_eq!(outcome.stdout, format!("hello {number}\n"));
    });
}

/// The command of a container in the crowd that is killed, if any.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Lives,
    /// The command that makes the container is killed after this many microseconds.
    MakingKilled(u64),
    /// The container's `start` is killed after this many microseconds.
    StartKilled(u64),
}

/// Returns the fates of two hundred containers, of which fifty have a command that is killed.
fn fates(seed: &mut Seed) -> Vec<Fate> {
    let mut fates = vec![Fate::Lives; 200];
    let mut left = 50;
    while left > 0 {
        // A start takes some milliseconds if it is the only one, and several times as long in a crowd.
        let moment = match seed.below(2) {
            0 => seed.below(5_000),
            _ => seed.below(40_000),
        };
        let at = seed.below(200) as usize;
        if matches!(fates[at], Fate::Lives) {
            let starts = at.is_multiple_of(4) && seed.below(3) == 0;
            fates[at] = if starts { Fate::StartKilled(moment) } else { Fate::MakingKilled(moment) };
            left -= 1;
        }
    }
    fates
}

/// Kills the runtime at a random moment.
fn kill_at(call: Call, microseconds: u64) {
    let running = call.spawn();
    std::thread::sleep(Duration::from_micros(microseconds));
    running.signal(Signal::KILL);
    let _ = running.wait();
}

/// Fifty of two hundred containers have a command that is killed. The other containers are unaffected. After all two
/// hundred have been deleted, nothing is left of any of them.
fn two_hundred_with_fifty_killed(bed: &Bed) {
    let mut seed = Seed::new("two_hundred_with_fifty_killed");
    let profile = |number: usize| {
        // Every second container has a different filter, so that starts also write to the cache.
        let error = if number.is_multiple_of(2) { 1 } else { 1 + number };
        json!({ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            { "names": ["mkdir"], "action": "SCMP_ACT_ERRNO", "errnoRet": error } ] })
    };
    let rules = json!([
        { "allow": false, "access": "rwm" },
        { "allow": true, "type": "c", "major": 1, "minor": 3, "access": "rw" },
    ]);
    let make = |number: usize| {
        let bundle = bed.bundle().set("/linux/seccomp", profile(number));
        let bundle = bundle.set("/linux/resources/devices", rules.clone());
        // Some of the background containers keep running, and some exit by themselves.
        let script = match number % 4 {
            0 | 2 => "echo hello NUMBER; sleep 1000",
            1 => "echo hello NUMBER; exit $((NUMBER % 50))",
            _ => "echo hello NUMBER",
        };
        bundle.sh(&script.replace("NUMBER", &number.to_string())).make()
    };
    // Other commands on the host change its cache at any time.
    let _cache = OwnCache::begin();
    // The first start fills the cache.
    make(1).run().exits(1);
    let all: Vec<Container<'_>> = (0..200).map(make).collect();
    let host = Host::look();
    let fates = fates(&mut seed);
    crowd(all.len(), |number| {
        let c = &all[number];
        let hello = format!("hello {number}");
        match (fates[number], number % 4) {
            (Fate::Lives, 0) => {
                let created = c.create().ok();
                c.start().ok();
                created.wait_output(&hello);
                assert_eq!(c.status(), "running");
            }
            (Fate::Lives, 1) => {
                let outcome = c.run().exits(i32::try_from(number % 50).expect("code"));
                assert_eq!(outcome.stdout, hello + "\n");
            }
            (Fate::Lives, _) => drop(c.run_with(&["--detach"]).ok().wait_output(&hello)),
            (Fate::MakingKilled(after), 0) => kill_at(c.bundle_call("create", &[]), after),
            (Fate::MakingKilled(after), 1) => kill_at(c.bundle_call("run", &[]), after),
            (Fate::MakingKilled(after), _) => kill_at(c.bundle_call("run", &["--detach"]), after),
            (Fate::StartKilled(after), _) => {
                c.create().ok();
                kill_at(c.id_call("start", &[], &[]), after);
            }
        }
        // `state` reports the true state, whatever happened.
        let state = c.id_call("state", &[], &[]).run();
        assert!(state.code() == 0 || state.stderr.contains("does not exist"), "{state}");
    });
    crowd(all.len(), |number| {
        all[number].delete_force().ok();
    });
    let ids: Vec<String> = all.iter().map(|c| c.id.clone()).collect();
    wait::until_none("anything left of two hundred containers", || {
        let mut left = leak::find(bed.view, &bed.dir.join("bundle"), &ids);
        left.extend(host.changes());
        let records = std::fs::read_dir(bed.root()).expect("state root").flatten();
        left.extend(records.map(|entry| format!("record left behind: {:?}", entry.file_name())));
        left
    });
}

fn same_id_at_once(bed: &Bed) {
    let c = bed.bundle().make();
    // There are enough rounds for two commands to collide before either has the lock.
    for _ in 0..20 {
        let running: Vec<_> = (0..8).map(|_| c.bundle_call("create", &[]).spawn()).collect();
        let codes: Vec<i32> = running.into_iter().map(|running| running.wait().code()).collect();
        let winners = codes.iter().filter(|code| **code == 0).count();
        assert_eq!(winners, 1, "exactly one wins: {codes:?}");
        assert_eq!(c.status(), "created");
        c.delete_force().ok();
        c.assert_gone("eight that wanted to make it");
    }
}

/// A `state` of a container that does not exist may lock, for a moment, the directory that a killed `create` has left.
/// The id must still count as free.
fn created_while_somebody_looks(bed: &Bed) {
    let c = bed.bundle().make();
    let directory = bed.root().join(&c.id);
    std::fs::create_dir_all(&directory).expect("make");
    let looks = std::fs::File::open(&directory).expect("open");
    looks.lock_shared().expect("lock");
    let creating = c.bundle_call("create", &[]).spawn();
    creating.until_it_waits();
    drop(looks);
    creating.wait().ok();
    assert_eq!(c.status(), "created");
}

/// A `create` is delayed between making its directory and opening it. Meanwhile a `delete` mistakes the directory for
/// the remains of a killed `create`, and another `create` makes the container. The first `create` must leave that
/// container alone.
fn directory_is_another_ones(bed: &Bed) {
    let c = bed.bundle().make();
    let directory = bed.root().join(&c.id);
    let mut is_held_up = false;
    let outcome = c.bundle_call("create", &[]).follow(&mut |_, event| {
        let Event::Left { number, result: Ok(_) } = event else { return };
        if !is_held_up && call_name(number) == "mkdirat" && directory.exists() {
            is_held_up = true;
            let deleted = c.delete();
            assert!(deleted.stderr.contains("does not exist"), "{deleted}");
            assert!(!directory.exists(), "{deleted}");
            c.create().ok();
        }
    });
    assert!(is_held_up, "{outcome}");
    assert!(outcome.code() == 1 && outcome.stderr.contains("already exists"), "{outcome}");
    assert_eq!(c.status(), "created");
    c.delete_force().ok();
    c.assert_gone("one of two that made it");
}

fn list_while_others_come_and_go(bed: &Bed) {
    let stays = bed.bundle().make().detached();
    let all = containers(bed, 12, "exit 0");
    crowd(24, |number| {
        if number % 2 == 0 {
            all[number / 2].run().ok();
        } else {
            let listed = bed.call(&["list", "-q"]).run();
            assert!(listed.code() == 0 && listed.lines().contains(&stays.id.as_str()), "{listed}");
        }
    });
}

fn delete_at_once(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let running: Vec<_> = (0..6).map(|_| c.id_call("delete", &["--force"], &[]).spawn()).collect();
    let codes: Vec<i32> = running.into_iter().map(|running| running.wait().code()).collect();
    assert!(codes.contains(&0), "{codes:?}");
    assert!(!c.exists());
}

/// The kernel reports changes of a cgroup at most every 10 ms. If the cgroup is removed before the last report is due,
/// the report is lost. A waiting command must notice the removal all the same.
fn delete_at_once_what_changes(bed: &Bed) {
    let c = bed.bundle().without_namespace("pid").sh("sleep 1000 & sleep 1000 & wait").make();
    for _ in 0..8 {
        c.create().ok();
        c.start().ok();
        let state = c.cgroup_file("", "cgroup.freeze");
        let begin = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while std::fs::write(&state, "1").and_then(|()| std::fs::write(&state, "0")).is_ok()
                {
                }
            });
            crowd(6, |_| drop(c.delete_force()));
        });
        let time = begin.elapsed();
        // A command that is never woken would wait for ten seconds.
        assert!(time < Duration::from_secs(10), "took {time:?}");
        c.delete_force().ok();
    }
}

/// The kernel reports that a directory was closed a moment before it releases the directory's lock. A `delete` that
/// tries to take the lock in that moment gets no further event. It must notice the release all the same, without
/// constant polling.
fn delete_waits_for_who_is_at_work(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let works = std::fs::File::open(bed.root().join(&c.id)).expect("open");
    works.lock().expect("lock");
    let begin = Instant::now();
    let deleting = c.id_call("delete", &["--force"], &[]).spawn();
    // The time itself is the subject: `delete` waits during this half second, and its CPU time shows whether it polls.
    std::thread::sleep(Duration::from_millis(500));
    assert!(!deleting.has_ended() && c.exists());
    // The first field is the CPU time in nanoseconds.
    let schedule = std::fs::read_to_string(format!("/proc/{}/schedstat", deleting.pid()));
    let schedule = schedule.expect("read");
    let time: u64 = schedule.split(' ').next().and_then(|time| time.parse().ok()).expect("number");
    works.unlock().expect("unlock");
    deleting.wait().ok();
    // The limits are higher on emulated machines, but constant polling would exceed them there, too.
    let slowness = (wait::patience().as_secs() / 20).clamp(1, 8) as u32;
    assert!(!c.exists());
    assert!(begin.elapsed() < Duration::from_secs(5) * slowness, "{:?}", begin.elapsed());
    let much = Duration::from_millis(50) * slowness;
    assert!(Duration::from_nanos(time) < much, "{time} ns of CPU time");
}

/// A `create` that has just begun, so that there is no record yet, must not go on after a forced deletion has reported
/// success.
fn delete_waits_for_who_has_just_begun(bed: &Bed) {
    let c = bed.bundle().make();
    let directory = bed.root().join(&c.id);
    std::fs::create_dir_all(&directory).expect("mkdir");
    let creates = std::fs::File::open(&directory).expect("open");
    creates.lock().expect("lock");
    let deleting = c.id_call("delete", &["--force"], &[]).spawn();
    // The time itself is the subject: `delete` waits during this time.
    std::thread::sleep(Duration::from_millis(300));
    assert!(!deleting.has_ended() && directory.exists());
    creates.unlock().expect("unlock");
    deleting.wait().ok();
    assert!(!directory.exists());
}

/// Several commands delete a container at once. A container with the same name may be created before all of them have
/// finished.
fn delete_while_it_is_made_again(bed: &Bed) {
    let c = bed.bundle().make();
    let end = Instant::now() + Duration::from_secs(3);
    crowd(8, |number| {
        while Instant::now() < end {
            if number % 4 == 0 {
                drop(c.create());
            } else {
                let deleted = if number % 4 == 1 { c.delete() } else { c.delete_force() };
                assert!(!deleted.stderr.contains("rmdir"), "{deleted}");
            }
        }
    });
    c.delete_force().ok();
}

fn start_at_once(bed: &Bed) {
    let c = bed.bundle().sh("echo once >>/log; sleep 1000").make();
    c.create().ok();
    let running: Vec<_> = (0..6).map(|_| c.id_call("start", &[], &[]).spawn()).collect();
    let outcomes: Vec<_> = running.into_iter().map(|running| running.wait()).collect();
    let (started, refused): (Vec<_>, Vec<_>) = outcomes.iter().partition(|one| one.code() == 0);
    assert_eq!(started.len(), 1, "{outcomes:?}");
    for one in refused {
        let text = "cannot start an already running container";
        assert!(one.stderr.contains(text), "{one}");
    }
    let log = c.bundle.join("rootfs/log");
    dayfly_tests::wait::until_true("the program to run", || log.exists());
    assert_eq!(std::fs::read_to_string(log).expect("log"), "once\n");
}
