//! Images with links to the host, or to files of the kernel.

use super::{Evidence, WAYS, attacks};
use crate::security::{replace_by_link, without_mounts};
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::console::FdSocket;
use dayfly_tests::runner::Case;
use dayfly_tests::victim::Victim;
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = attacks! {
    image_link_leads_outside without "resolve-in-root",
    file_target_dangles without "resolve-in-root",
    directory_target_dangles without "resolve-in-root",
    device_dangles without "resolve-in-root",
    bind_source_leads_outside without "resolve-in-root",
    krun_config_dangles without "resolve-in-root",
    dev_leads_outside without "resolve-in-root",
    console_leads_outside without "after-pivot,resolve-in-root",
    null_leads_outside without "after-pivot,resolve-in-root,verify-device,own-null",
    null_is_a_kernel_file without "verify-device,own-null",
    terminal_is_a_kernel_file without "pty-peer",
};

/// Runs two bundles in every way of starting, and returns the first damage to `victim`. `make` prepares a bundle with
/// links to the given target: for one bundle the absolute path of the victim's directory, for the other a relative path
/// that climbs out of the rootfs to it.
fn run_with_links<'a>(
    bed: &'a Bed,
    victim: &Victim,
    make: impl Fn(Bundle<'a>, &Path) -> Bundle<'a>,
) -> Evidence {
    for way in WAYS {
        for target in [victim.dir.clone(), victim.climbing()] {
            let c = make(bed.bundle(), &target).make();
            let _ = c.bundle_call("run", &[]).env("DAYFLY_WITHOUT", way).run();
            if let Some(damage) = victim.damage() {
                return Some(damage);
            }
        }
    }
    None
}

fn image_link_leads_outside(bed: &Bed) -> Evidence {
    run_with_links(bed, &Victim::new(bed), |bundle, target| {
        replace_by_link(&bundle, "mnt", target);
        bundle
            .mount("tmpfs", "tmpfs", "/mnt/new", &[])
            .mount("tmpfs", "tmpfs", "/mnt", &[])
            .sh("touch /mnt/x")
    })
}

fn file_target_dangles(bed: &Bed) -> Evidence {
    run_with_links(bed, &Victim::new(bed), |bundle, target| {
        symlink(target.join("made"), bundle.rootfs().join("target")).expect("link");
        bundle.mount("bind", "/etc/hostname", "/target", &["bind"]).args(&["/bin/true"])
    })
}

fn directory_target_dangles(bed: &Bed) -> Evidence {
    run_with_links(bed, &Victim::new(bed), |bundle, target| {
        symlink(target.join("made"), bundle.rootfs().join("target")).expect("link");
        symlink("target", bundle.rootfs().join("first")).expect("link");
        bundle.mount("tmpfs", "tmpfs", "/first/below", &[]).args(&["/bin/true"])
    })
}

fn device_dangles(bed: &Bed) -> Evidence {
    run_with_links(bed, &Victim::new(bed), |bundle, target| {
        symlink(target.join("made"), bundle.rootfs().join("dev/full")).expect("link");
        without_mounts(bundle, "/dev").args(&["/bin/true"])
    })
}

/// The source of the bind is below an earlier mount, where the container's owner has put links.
fn bind_source_leads_outside(bed: &Bed) -> Evidence {
    let volume = bed.dir.join("volume");
    run_with_links(bed, &Victim::new(bed), |bundle, target| {
        let _ = fs::remove_dir_all(&volume);
        fs::create_dir(&volume).expect("make");
        symlink(target, volume.join("link")).expect("link");
        fs::create_dir(bundle.rootfs().join("got")).expect("make");
        let source = bundle.rootfs().join("mnt/link");
        bundle
            .mount("bind", volume.to_str().expect("path"), "/mnt", &["bind"])
            .mount("bind", source.to_str().expect("path"), "/got", &["bind"])
            .sh("touch /got/made")
    })
}

/// dayfly does not write crun's configuration file for krun; it only creates mount points at given names.
fn krun_config_dangles(bed: &Bed) -> Evidence {
    run_with_links(bed, &Victim::new(bed), |bundle, target| {
        let name = ".krun_config.json";
        symlink(target.join("made"), bundle.rootfs().join(name)).expect("link");
        bundle
            .set("/annotations/run.oci.handler", json!("krun"))
            .mount("bind", "/etc/hostname", &format!("/{name}"), &["bind"])
            .args(&["/bin/true"])
    })
}

fn dev_leads_outside(bed: &Bed) -> Evidence {
    run_with_links(bed, &Victim::new(bed), |bundle, target| {
        replace_by_link(&bundle, "dev", target);
        without_mounts(bundle, "/dev").args(&["/bin/true"])
    })
}

fn console_leads_outside(bed: &Bed) -> Evidence {
    let victim = Victim::new(bed);
    let socket = FdSocket::new(&bed.dir, "console.sock");
    for way in WAYS {
        for target in [victim.dir.clone(), victim.climbing()] {
            let bundle = bed.bundle();
            symlink(target.join("made"), bundle.rootfs().join("dev/console")).expect("link");
            let c = without_mounts(bundle, "/dev")
                .mount("devpts", "devpts", "/dev/pts", &["newinstance", "ptmxmode=0666"])
                .set("/process/terminal", json!(true))
                .args(&["/bin/true"])
                .make();
            let call = c.bundle_call("run", &["-d", "--console-socket", &socket.arg()]);
            let _ = call.env("DAYFLY_WITHOUT", way).run();
            if let Some(damage) = victim.damage() {
                return Some(damage);
            }
        }
    }
    None
}

fn null_leads_outside(bed: &Bed) -> Evidence {
    let victim = Victim::new(bed);
    for way in WAYS {
        let bundle = without_mounts(bed.bundle(), "/dev");
        symlink(victim.dir.join("file"), bundle.rootfs().join("dev/null")).expect("link");
        fs::write(bundle.rootfs().join("masked"), "").expect("write");
        let c = bundle.set("/linux/maskedPaths", json!(["/masked"])).sh("cat /masked").make();
        let outcome = c.bundle_call("run", &[]).env("DAYFLY_WITHOUT", way).run();
        if outcome.stdout.contains("precious") {
            return Some(format!("the host's file is read: {outcome}"));
        }
    }
    None
}

fn null_is_a_kernel_file(bed: &Bed) -> Evidence {
    let name = "/proc/sys/kernel/domainname";
    for way in WAYS {
        let bundle = without_mounts(bed.bundle(), "/dev");
        symlink(name, bundle.rootfs().join("dev/null")).expect("link");
        let c = bundle
            .set("/linux/maskedPaths", json!(["/proc/keys", name]))
            .set("/linux/readonlyPaths", json!([]))
            .sh(&format!("echo hit >/proc/keys; cat {name}"))
            .make();
        let outcome = c.bundle_call("run", &[]).env("DAYFLY_WITHOUT", way).run();
        if outcome.stdout.contains("hit") {
            return Some(format!("the mask is a way to a masked file: {}", outcome.stdout));
        }
    }
    None
}

/// /dev/console is a bind mount of the file at the container's /dev/pts/N, which the attack makes a link to a kernel
/// file.
fn terminal_is_a_kernel_file(bed: &Bed) -> Evidence {
    let name = "/proc/sys/kernel/domainname";
    let volume = bed.dir.join("pts");
    fs::create_dir_all(volume.join("pts")).expect("make");
    fs::write(volume.join("ptmx"), "").expect("write");
    for number in 0..200 {
        symlink(name, volume.join(number.to_string())).expect("link");
    }
    let c = bed
        .bundle()
        .remount(
            "/dev/pts",
            json!({
                "destination": "/dev/pts", "type": "bind", "source": volume, "options": ["bind"],
            }),
        )
        .mount("bind", "/dev/pts/ptmx", "/dev/pts/ptmx", &["bind"])
        // For a bind-mounted ptmx, the kernel looks for the devpts file system at `pts` beside it.
        .mount("bind", "/dev/pts", "/dev/pts/pts", &["bind"])
        .set("/process/terminal", json!(true))
        .sh(&format!("echo direct >{name}; echo hit >/dev/console; cat {name} >/result"))
        .make();
    let socket = FdSocket::new(&bed.dir, "console.sock");
    // Looking up the terminal's name by number allocates memory, which an init in the command's memory must not do.
    let way = if bed.is_undefended() { "shared-memory" } else { "" };
    let call = c.bundle_call("run", &["-d", "--console-socket", &socket.arg()]);
    let started = call.env("DAYFLY_WITHOUT", way).run();
    if started.code() != 0 {
        return None;
    }
    let _terminal = socket.receive();
    c.wait_status("stopped");
    let result = fs::read_to_string(c.bundle.join("rootfs/result")).unwrap_or_default();
    result.contains("hit").then(|| format!("/dev/console is {name}: {result}"))
}
