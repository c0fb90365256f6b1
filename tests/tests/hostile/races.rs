//! A process with access to a shared volume repeatedly exchanges a directory for a link to the host, while containers
//! start that have mounts below this directory.

use super::{Evidence, attacks};
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::runner::Case;
use dayfly_tests::victim::Victim;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = attacks! {
    mount_target_is_exchanged without "resolve-in-root",
    parent_is_exchanged without "resolve-in-root",
    dangling_link_is_exchanged without "resolve-in-root",
};

/// Returns the time limit of an attack. Containers are started repeatedly until the attack succeeds or time runs out.
fn patience(bed: &Bed) -> Duration {
    Duration::from_secs(if bed.is_undefended() { 20 } else { 2 })
}

fn mount_target_is_exchanged(bed: &Bed) -> Evidence {
    race(bed, |bundle| bundle.mount("tmpfs", "tmpfs", "/volume/place/new", &[]))
}

fn parent_is_exchanged(bed: &Bed) -> Evidence {
    race(bed, |bundle| {
        bundle.mount("bind", "/etc/hostname", "/volume/place/made/by/whom", &["bind"])
    })
}

/// The mount point is a link with a missing target. The target is created below the directory that is being exchanged.
fn dangling_link_is_exchanged(bed: &Bed) -> Evidence {
    race(bed, |bundle| {
        let place = bundle.rootfs().join("volume/place");
        symlink("place/made/by/whom", place.parent().expect("volume").join("link")).expect("link");
        bundle.mount("bind", "/etc/hostname", "/volume/link", &["bind"]).mount(
            "tmpfs",
            "tmpfs",
            "/volume/place/made/too",
            &[],
        )
    })
}

fn race<'a>(bed: &'a Bed, with_target: impl Fn(Bundle<'a>) -> Bundle<'a>) -> Evidence {
    let victim = Victim::new(bed);
    let bundle = bed.bundle();
    let volume = bundle.rootfs().join("volume");
    fs::create_dir_all(volume.join("place")).expect("make");
    symlink(&victim.dir, volume.join("other")).expect("link");
    let c = with_target(bundle).args(&["/bin/true"]).make();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| exchange(&volume, &over));
        let began = Instant::now();
        let mut damage = None;
        while damage.is_none() && began.elapsed() < patience(bed) {
            let call = c.bundle_call("run", &[]).env("DAYFLY_WITHOUT", "blank-namespace");
            let _ = call.run();
            damage = victim.damage();
            if damage.is_none() {
                let _ = fs::remove_dir_all(volume.join("place/made"));
            }
        }
        over.store(true, Ordering::Relaxed);
        damage
    })
}

fn exchange(volume: &Path, over: &AtomicBool) {
    let (place, other) = (volume.join("place"), volume.join("other"));
    while !over.load(Ordering::Relaxed) {
        let _ = renameat_with(CWD, &place, CWD, &other, RenameFlags::EXCHANGE);
    }
}
