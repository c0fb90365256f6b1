//! Many containers at once.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use std::sync::atomic::{AtomicUsize, Ordering};

pub const CASES: &[Case] = &[
    case!(hundred_created_then_started).alone(),
    case!(hundred_runs).alone(),
    case!(same_id_at_once),
    case!(list_while_others_come_and_go),
    case!(delete_at_once),
    case!(start_at_once).unlike_runc(),
];

/// Runs `work` for 0..count on 16 threads; a panic in one ends the case.
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
        let failed = workers.into_iter().filter_map(|worker| worker.join().err()).count();
        assert_eq!(failed, 0, "workers that failed");
    });
}

/// `count` containers of one bundle.
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

fn same_id_at_once(bed: &Bed) {
    let c = bed.bundle().make();
    let running: Vec<_> = (0..8).map(|_| c.bundle_call("create", &[]).spawn()).collect();
    let codes: Vec<i32> = running.into_iter().map(|running| running.wait().code()).collect();
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "exactly one wins: {codes:?}");
    assert_eq!(c.status(), "created");
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

fn start_at_once(bed: &Bed) {
    let c = bed.bundle().sh("echo once >>/log; sleep 1000").make();
    c.create().ok();
    let running: Vec<_> = (0..6).map(|_| c.id_call("start", &[], &[]).spawn()).collect();
    let codes: Vec<i32> = running.into_iter().map(|running| running.wait().code()).collect();
    assert!(codes.contains(&0), "{codes:?}");
    let log = c.bundle.join("rootfs/log");
    dayfly_tests::wait::until_true("the program to run", || log.exists());
    assert_eq!(std::fs::read_to_string(log).expect("log"), "once\n");
}
