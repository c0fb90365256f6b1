//! Concurrent commands on one store: imports, some of which are killed or interrupted, and processes that hold the
//! store's lock.

use super::{V2, visible};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::image::{self, Layer, Layout};
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::uses_every_fast_path;
use dayfly_tests::wait;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use std::fs;
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

dayfly_tests::subject!(Tools, CASES);

const CASES: &[Case] = &[
    case!(eight_imports_at_once).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(killed_imports).on(V2).when(uses_every_fast_path).needs(image::needed).alone(),
    case!(an_interrupted_import).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(who_removes_is_waited_for).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(who_relies_is_not_waited_for).on(V2).when(uses_every_fast_path).needs(image::needed),
];

/// Makes a layout whose import takes a while: 12 layers of 60 files.
fn long_one(bed: &Bed) -> Layout {
    let layer = |number: u32| {
        (0..60).fold(Layer::new().dir("d/", 0o755), |layer, at| {
            let data: Vec<u8> = (0..3000u32).map(|i| (i * 7 + number * 13 + at) as u8).collect();
            layer.file(&format!("d/{number}-{at}"), 0o644, &data)
        })
    };
    image::layout(bed, "layout", (0..12).map(layer).collect())
}

fn eight_imports_at_once(bed: &Bed) {
    let layout = long_one(bed);
    let source = layout.dir.to_str().expect("path");
    let names: Vec<String> = (0..8).map(|number| format!("n{number}")).collect();
    let running: Vec<_> = names
        .iter()
        .map(|name| image::call(bed, &["import", source, "--name", name]).spawn())
        .collect();
    running.into_iter().for_each(|one| drop(one.wait().ok()));
    assert_eq!(fs::read_dir(image::store(bed).join("layers")).expect("layers").count(), 12);
    assert_eq!(fs::read_dir(image::store(bed).join("work")).expect("work").count(), 0);
    assert_eq!(fs::read_dir(image::store(bed).join("refs")).expect("refs").count(), 8);
    let out = bed.dir.join("out");
    image::call(bed, &["export", "n3", out.to_str().expect("path"), "--compress", "none"])
        .run()
        .ok();
}

fn killed_imports(bed: &Bed) {
    let layout = long_one(bed);
    let source = layout.dir.to_str().expect("path");
    let import = || image::call(bed, &["import", source, "--name", "test"]);
    let start = std::time::Instant::now();
    import().run().ok();
    let whole = start.elapsed();
    image::call(bed, &["rm", "test"]).run().ok();
    for round in 0..20u32 {
        let running = import().spawn();
        std::thread::sleep(whole * round / 20);
        running.signal(Signal::KILL);
        let killed = running.wait().died_of_signal();
        let named = image::store(bed).join("refs/test:latest").exists();
        if named {
            // An image with a name must be complete.
            let out = bed.dir.join(format!("out{round}"));
            image::call(
                bed,
                &["export", "test", out.to_str().expect("path"), "--compress", "none"],
            )
            .run()
            .ok();
            image::call(bed, &["rm", "test"]).run().ok();
        } else {
            assert!(killed);
            let listed = image::call(bed, &["ls", "--quiet"]).run().ok().stdout;
            assert!(listed.lines().count() <= 1, "{listed}");
        }
        image::call(bed, &["gc"]).run().ok();
        assert_eq!(visible(bed), Vec::<PathBuf>::new(), "round {round}");
    }
}

fn an_interrupted_import(bed: &Bed) {
    // The signal arrives while the layers are being unpacked.
    let layout = long_one(bed);
    let running =
        image::call(bed, &["import", layout.dir.to_str().expect("path"), "--name", "test"]).spawn();
    let work = image::store(bed).join("work");
    wait::until_true("work that is begun", || fs::read_dir(&work).is_ok_and(|dir| dir.count() > 0));
    running.signal(Signal::TERM);
    let outcome = running.wait();
    if outcome.code() != 0 {
        assert!(outcome.stderr.contains("interrupted"), "{outcome}");
        assert_eq!(visible(bed), Vec::<PathBuf>::new());
    }
}

/// Makes a store with one image, and takes its lock, as another command does. Returns the file that holds the lock.
fn held(bed: &Bed, how: FlockOperation) -> File {
    let layer = Layer::new().file("file", 0o644, b"");
    image::import(bed, &image::layout(bed, "layout", vec![layer]));
    let lock = File::options().write(true).open(image::store(bed).join("lock")).expect("lock");
    flock(&lock, how).expect("lock");
    lock
}

fn layers(bed: &Bed) -> usize {
    fs::read_dir(image::store(bed).join("layers")).expect("layers").count()
}

/// A command waits for another command that removes images. After the time of `--wait` it fails, and its error names
/// the other command.
fn who_removes_is_waited_for(bed: &Bed) {
    let lock = held(bed, FlockOperation::NonBlockingLockExclusive);
    let out = bed.dir.join("out");
    let out = out.to_str().expect("path");
    let about = |seconds: u64, begin: Instant| {
        let spent = begin.elapsed();
        let least = Duration::from_secs(seconds);
        assert!(least <= spent && spent < least + Duration::from_secs(10), "{spent:?}");
    };
    for seconds in [0, 2] {
        let begin = Instant::now();
        let wait = seconds.to_string();
        let outcome = image::call(bed, &["export", "test", out, "--wait", &wait]).run().exits(1);
        about(seconds, begin);
        let who = format!("error: process {} (", std::process::id());
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        let [line] = lines[..] else { panic!("more than one line: {outcome}") };
        assert!(line.starts_with(&who) && line.contains(&format!("for {wait} s")), "{outcome}");
        assert!(line.contains("longer with --wait SECONDS"), "{outcome}");
        assert!(!fs::exists(out).expect("out"), "{outcome}");
    }
    // The command continues as soon as the lock is released.
    let export = image::call(bed, &["export", "test", out]).spawn();
    export.until_it_waits();
    flock(&lock, FlockOperation::Unlock).expect("unlock");
    export.wait().ok();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("lock");
    // A name can be removed while the lock is held.
    let begin = Instant::now();
    let outcome = image::call(bed, &["rm", "test", "--wait", "2"]).run().ok();
    about(2, begin);
    let told =
        "removed test:latest\nthe store is in use: \"dayfly image gc\" removes the layers later\n";
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), (told, ""));
    assert_eq!(layers(bed), 1);
    drop(lock);
    image::call(bed, &["gc"]).run().ok();
    assert_eq!(visible(bed), Vec::<PathBuf>::new());
}

/// Imports rely on content that has no name yet. A removal would have to wait for them, so it leaves such content to a
/// later gc.
fn who_relies_is_not_waited_for(bed: &Bed) {
    let lock = held(bed, FlockOperation::NonBlockingLockShared);
    let out = bed.dir.join("out");
    let begin = Instant::now();
    image::call(bed, &["export", "test", out.to_str().expect("path")]).run().ok();
    let outcome = image::call(bed, &["rm", "test"]).run().ok();
    assert!(outcome.stdout.contains("the store is in use"), "{outcome}");
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert_eq!(layers(bed), 1);
    drop(lock);
    image::call(bed, &["gc"]).run().ok();
    assert_eq!(visible(bed), Vec::<PathBuf>::new());
}
