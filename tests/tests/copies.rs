//! `cp`: files of the host and of running containers, which may be hostile.

use crate::run_image::{background, call, delete, ends, image_of, programs};
use crate::userns::mapped;
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::image::Layer;
use dayfly_tests::runner::Case;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(files_and_directories).unlike_runc(),
    case!(what_cp_refuses).unlike_runc(),
    case!(links_do_not_leave_the_container).unlike_runc(),
    case!(devices_and_fifos_are_not_opened).unlike_runc(),
    case!(owners_in_a_user_namespace).unlike_runc(),
    case!(out_of_a_stopped_container).unlike_runc().needs(programs),
];

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Calls `cp` with `ID:` in place of `@`.
fn cp(bed: &Bed, c: &Container<'_>, from: &str, to: &str) -> dayfly_tests::runtime::Outcome {
    let [from, to] = [from, to].map(|side| side.replacen('@', &format!("{}:", c.id), 1));
    bed.call(&["cp", &from, &to]).run()
}

fn files_and_directories(bed: &Bed) {
    let c = bed.bundle().args(&["sleep", "1000"]).make().detached();
    let (root, here) = (c.bundle.join("rootfs"), bed.dir.join("here"));
    fs::create_dir_all(here.join("site/sub")).expect("make directories");
    fs::write(here.join("site/sub/page"), "a page").expect("write");
    fs::set_permissions(here.join("site/sub/page"), fs::Permissions::from_mode(0o4640))
        .expect("chmod");
    symlink("sub/page", here.join("site/link")).expect("link");
    let site = here.join("site");
    cp(bed, &c, path(&site), "@/tmp").ok();
    let copy = root.join("tmp/site");
    assert_eq!(fs::read_to_string(copy.join("sub/page")).expect("read"), "a page");
    assert_eq!(fs::read_link(copy.join("link")).expect("link"), Path::new("sub/page"));
    let (own, copied) = (site.join("sub/page"), copy.join("sub/page"));
    let [own, copied] = [own, copied].map(|file| fs::metadata(file).expect("metadata"));
    assert_eq!((copied.mode() & 0o7777, copied.mtime()), (0o640, own.mtime()));
    // Under another name, only the contents, and over what is there.
    cp(bed, &c, path(&site), "@tmp/other").ok();
    cp(bed, &c, &format!("{}/.", path(&site)), "@/tmp").ok();
    cp(bed, &c, &format!("{}/.", path(&site)), "@/tmp/third").ok();
    for name in ["other/link", "sub/page", "third/sub/page"] {
        assert!(root.join("tmp").join(name).exists(), "{name}");
    }
    fs::write(site.join("sub/page"), "2").expect("write");
    cp(bed, &c, path(&site), "@/tmp").ok();
    assert_eq!(fs::read_to_string(copy.join("sub/page")).expect("read"), "2");
    cp(bed, &c, "@/tmp/site/sub", path(&here)).ok();
    assert_eq!(fs::read_to_string(here.join("sub/page")).expect("read"), "2");
    cp(bed, &c, "@/tmp/site/sub/page", path(&here.join("new"))).ok();
    assert_eq!(fs::read_to_string(here.join("new")).expect("read"), "2");
}

fn what_cp_refuses(bed: &Bed) {
    let c = bed.bundle().args(&["sleep", "1000"]).make().detached();
    cp(bed, &c, "/a", "/b").fails("one of the paths must be CONTAINER:PATH");
    cp(bed, &c, "@/a", "@/b").fails("one of the paths must be CONTAINER:PATH");
    cp(bed, &c, "@/etc", "-").fails("cp has no archives");
    cp(bed, &c, "@/no/such", path(&bed.dir)).fails("open /no: no such file or directory");
    cp(bed, &c, "@/etc", "/no/such/place").fails("open /no/such: no such file or directory");
    cp(bed, &c, "/etc/hostname", "@/no-such/").fails("open /no-such/: no such file or directory");
    c.kill("KILL").ok();
    c.wait_status("stopped");
    cp(bed, &c, "/etc/hostname", "@/etc").fails("container not running");
    cp(bed, &c, "@/etc", path(&bed.dir)).ok();
    assert!(bed.dir.join("etc").is_dir());
}

/// Changes of all kinds: new, changed, removed, with other rights only, renamed.
fn out_of_a_stopped_container(bed: &Bed) {
    let files = Layer::new()
        .dir("srv/old/", 0o755)
        .file("srv/old/file", 0o644, b"of the image")
        .file("srv/gone", 0o644, b"")
        .file("srv/mode", 0o600, &[b'x'; 100_000])
        .file("srv/same", 0o644, b"the same");
    image_of(bed, vec![files]);
    let here = bed.dir.join("here");
    let script = "cd /srv; echo new >new; echo changed >old/file; rm gone; chmod 644 mode; mkdir d; mv d e; ln -s new link";
    for options in [&[][..], &["--userns", "auto"], &["--rootfs-mode", "copy"]] {
        let id = background(bed, options, script);
        ends(bed, &id);
        fs::create_dir(&here).expect("mkdir");
        let copied = call(bed, &["cp", &format!("{id}:/srv/."), path(&here)]).run();
        copied.ok();
        let read = |name: &str| fs::read_to_string(here.join(name)).expect(name);
        assert_eq!(
            (read("new"), read("old/file"), read("same")),
            ("new\n".into(), "changed\n".into(), "the same".into())
        );
        assert_eq!((read("mode").len(), read("link")), (100_000, "new\n".into()));
        assert_eq!(fs::metadata(here.join("mode")).expect("a file").mode() & 0o777, 0o644);
        assert!(here.join("e").is_dir() && !here.join("d").exists() && !here.join("gone").exists());
        let into = call(bed, &["cp", path(&here.join("new")), &format!("{id}:/srv")]).run();
        into.fails("container not running");
        delete(bed, &id);
        fs::remove_dir_all(&here).expect("remove");
    }
    let id = background(bed, &["--ephemeral"], "true");
    ends(bed, &id);
    call(bed, &["cp", &format!("{id}:/srv"), path(&bed.dir)]).run().fails("its files are gone");
    delete(bed, &id);
}

fn links_do_not_leave_the_container(bed: &Bed) {
    let outside = bed.dir.join("outside");
    fs::create_dir(&outside).expect("make directory");
    fs::write(outside.join("file"), "of the host").expect("write");
    let c = bed.bundle().args(&["sleep", "1000"]).make().detached();
    let root = c.bundle.join("rootfs");
    symlink(&outside, root.join("tmp/away")).expect("link");
    symlink(outside.join("file"), root.join("tmp/file")).expect("link");
    // Resolved in the container, where there is no such directory.
    cp(bed, &c, "/etc/hostname", "@/tmp/away/new").fails("open /tmp/away: no such file");
    cp(bed, &c, "@/tmp/away/file", path(&bed.dir)).fails("open /tmp/away: no such file");
    // A link is replaced and copied, not followed.
    cp(bed, &c, "/etc/hostname", "@/tmp/file").ok();
    assert_eq!(fs::read_to_string(outside.join("file")).expect("read"), "of the host");
    assert!(!root.join("tmp/file").is_symlink());
    assert_eq!(fs::read_dir(&outside).expect("list").count(), 1);
}

fn devices_and_fifos_are_not_opened(bed: &Bed) {
    let c = bed.bundle().args(&["sleep", "1000"]).make().detached();
    let root = c.bundle.join("rootfs");
    let made = std::process::Command::new("mkfifo").arg(root.join("tmp/fifo")).status();
    assert!(made.expect("mkfifo").success());
    for source in ["@/dev/null", "@/tmp/fifo"] {
        cp(bed, &c, source, path(&bed.dir)).fails("cp copies files, directories and links only");
    }
    // One that is in the way is replaced.
    cp(bed, &c, "/etc/hostname", "@/tmp/fifo").ok();
    assert!(root.join("tmp/fifo").is_file());
}

fn owners_in_a_user_namespace(bed: &Bed) {
    let c = mapped(bed).args(&["sleep", "1000"]).make().detached();
    let file = bed.dir.join("file");
    fs::write(&file, "text").expect("write");
    c.exec(&["mkdir", "/tmp/own"]).ok();
    cp(bed, &c, path(&file), "@/tmp/own").ok();
    let seen = c.exec(&["ls", "-ln", "/tmp/own/file"]).ok().stdout;
    let words: Vec<&str> = seen.split_whitespace().collect();
    assert_eq!(words[2..4], ["0", "0"], "{seen}");
}
