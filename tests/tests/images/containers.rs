//! From the import of an image to its container, until nothing is left of either.

use super::V2;
use dayfly_tests::bed::Bed;
use dayfly_tests::image::{self, Layer, Layout, Packing};
use dayfly_tests::rootfs::busybox;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Call, uses_every_fast_path};
use dayfly_tests::user::{User, can_be};
use dayfly_tests::{case, kernel, program};
use rustix::mount::{MountFlags, mount};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

dayfly_tests::subject!(Tools, CASES);

const CASES: &[Case] = &[
    case!(imported_run_exported_run).on(V2).when(uses_every_fast_path).needs(every_way),
    case!(its_digest_names_an_image).on(V2).when(uses_every_fast_path).needs(programs),
    case!(a_mounts_image_is_kept).on(V2).when(uses_every_fast_path).needs(programs),
    case!(gc_counts_mounts).on(V2).when(uses_every_fast_path).needs(programs),
    case!(root_of_a_user_namespace).on(V2).when(uses_every_fast_path).needs(users_in_every_way),
    case!(a_user_is_told_what_it_takes).on(V2).when(uses_every_fast_path).needs(users),
    case!(options_that_exclude_others).on(V2).when(uses_every_fast_path).needs(programs),
    case!(variables_of_the_caller).on(V2).when(uses_every_fast_path).needs(programs),
];

const MODES: [&str; 5] = ["fd", "path", "parent", "per-layer", "copy"];
/// A script that prints what layers and configuration resulted in. [`SEEN`] is the expected output: a file is removed,
/// a directory is replaced, and the user and the working directory are the image's.
const LOOK: &str =
    "id -u; id -g; pwd; echo $A; ls /gone /replaced; cat /shared; echo x >/srv/new; ls /srv";
const SEEN: &str = "7\n8\n/srv\nb\n/replaced:\nnew\nabove\nnew\n";

fn programs() -> Result<(), String> {
    image::needed()?;
    busybox().map(drop)
}

fn users() -> Result<(), String> {
    programs()?;
    can_be()
}

/// Checks that the kernel supports every way of assembling layers: the newest way requires mounting by descriptors.
fn every_way() -> Result<(), String> {
    programs()?;
    kernel::has_detached()
}

fn users_in_every_way() -> Result<(), String> {
    users()?;
    kernel::has_detached()
}

/// Makes an image of three layers with a shell, for the user `app`.
fn layout(bed: &Bed) -> Layout {
    let shell = fs::read(busybox().expect("busybox")).expect("read busybox");
    let applets = ["sh", "cat", "echo", "env", "id", "ls", "true"];
    let base = Layer::new().dir("bin/", 0o755).file("bin/busybox", 0o755, &shell);
    let base =
        applets.iter().fold(base, |layer, name| layer.symlink(&format!("bin/{name}"), "busybox"));
    let base = base
        .file("gone", 0o644, b"x")
        .dir("replaced/", 0o755)
        .file("replaced/old", 0o644, b"x")
        .dir("srv/", 0o777)
        .file("shared", 0o644, b"below\n");
    let users = Layer::new()
        .dir("etc/", 0o755)
        .file("etc/passwd", 0o644, b"app:x:7:8::/srv:/bin/sh\n")
        .file(".wh.gone", 0o644, b"");
    let top = Layer::new()
        .dir("replaced/", 0o755)
        .file("replaced/.wh..wh..opq", 0o644, b"")
        .file("replaced/new", 0o644, b"x")
        .file("shared", 0o644, b"above\n");
    let layout = Layout::new(bed.dir.join("layout"));
    let process = json!({
        "Entrypoint": ["/bin/sh", "-c"], "Cmd": ["echo of the image"], "User": "app",
        "WorkingDir": "/srv", "Env": ["PATH=/bin", "A=b"],
    });
    let layers = [(base, Packing::Gzip), (users, Packing::Zstd), (top, Packing::Plain)];
    layout.index(&[layout.image(&layers, &process)]);
    layout
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn run(bed: &Bed, options: &[&str], command: &[&str]) -> Call {
    let id = bed.id();
    let store = image::store(bed);
    let all = [&["run", "--store", path(&store), "--name", &id], options, command].concat();
    bed.call(&all)
        .env("DAYFLY_IDS", path(&bed.dir.join("ids")))
        .env("DAYFLY_SUBUID", "/dev/null")
        .env("DAYFLY_SUBGID", "/dev/null")
}

/// Asserts that containers have left nothing in the store and no id range.
#[track_caller]
fn nothing_is_left(bed: &Bed) {
    for directory in
        [image::store(bed).join("containers"), image::store(bed).join("work"), bed.dir.join("ids")]
    {
        let left = fs::read_dir(&directory).map_or(0, Iterator::count);
        assert_eq!(left, 0, "left in {}", directory.display());
    }
}

fn imported_run_exported_run(bed: &Bed) {
    image::import(bed, &layout(bed));
    let everywhere = |name: &str| {
        for mode in MODES {
            for userns in ["host", "auto", "shared"] {
                let options = ["--image", name, "--rootfs-mode", mode, "--userns", userns];
                assert_eq!(run(bed, &options, &[LOOK]).run().stdout, SEEN, "{mode}, {userns}");
                let ephemeral = [&options[..], &["--ephemeral"]].concat();
                assert_eq!(run(bed, &ephemeral, &[LOOK]).run().stdout, SEEN, "{mode}, {userns}");
            }
        }
        nothing_is_left(bed);
    };
    everywhere("test");
    assert_eq!(run(bed, &["--image", "test"], &[]).run().ok().stdout, "of the image\n");
    let out = bed.dir.join("out.tar");
    image::call(bed, &["export", "test", path(&out), "--format", "docker-archive"]).run().ok();
    image::call(bed, &["rm", "test"]).run().ok();
    assert_eq!(fs::read_dir(image::store(bed).join("layers")).expect("layers").count(), 0);
    image::call(bed, &["import", path(&out), "--name", "again", "--seccomp", "none"]).run().ok();
    everywhere("again");
}

fn its_digest_names_an_image(bed: &Bed) {
    let image = image::import(bed, &layout(bed));
    let digest = image.file_name().and_then(|name| name.to_str()).expect("digest");
    for name in [digest, &digest[..12], &format!("sha256:{}", &digest[..12])] {
        assert_eq!(run(bed, &["--image", name], &[]).run().ok().stdout, "of the image\n", "{name}");
        image::call(bed, &["inspect", name]).run().ok();
    }
    run(bed, &["--image", &digest[..7]], &[]).run().fails("no image");
}

/// Imitates a container and a `rootfs mount` whose commands were killed: both have left mounts on the host, below their
/// directories in the store.
fn gc_counts_mounts(bed: &Bed) {
    let store = image::store(bed);
    let directories = [store.join("containers/killed"), store.join("mounts/killed")];
    let leave = || {
        for directory in &directories {
            for place in ["mnt/0", "mnt/1"] {
                let place = directory.join(place);
                fs::create_dir_all(&place).expect("mkdir");
                mount("tmpfs", &place, "tmpfs", MountFlags::empty(), None).expect("mount");
            }
        }
        // Two mounts are stacked at one path.
        let twice = directories[0].join("mnt/1");
        mount("tmpfs", &twice, "tmpfs", MountFlags::empty(), None).expect("mount");
        symlink(bed.dir.join("nowhere"), directories[0].join("owner")).expect("link");
    };
    let mounts = || {
        let text = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        text.lines().filter(|line| line.contains(path(&store))).count()
    };
    let gc = |words: &[&str]| {
        let ids = bed.dir.join("ids");
        let call = bed.call_bare(words).env("DAYFLY_STORE", path(&store));
        call.env("DAYFLY_IDS", path(&ids)).run().ok().stdout
    };
    leave();
    assert_eq!(mounts(), 5);
    assert_eq!(gc(&["gc"]), "2 directories, 5 mounts, 0 ranges of ids removed\n");
    assert_eq!(mounts(), 0);
    assert!(!directories.iter().any(|directory| directory.exists()));
    // `image gc` removes the directories of containers, but not those of mounted images, for which there are separate
    // commands.
    leave();
    let told = gc(&["image", "gc"]);
    assert!(told.starts_with("1 directory of containers and 3 mounts removed\n"), "{told}");
    assert_eq!(mounts(), 2);
    assert_eq!(gc(&["gc"]), "1 directory, 2 mounts, 0 ranges of ids removed\n");
    nothing_is_left(bed);
}

fn a_mounts_image_is_kept(bed: &Bed) {
    image::import(bed, &layout(bed));
    let at = bed.dir.join("at with a space");
    fs::create_dir(&at).expect("mkdir");
    let script = format!(
        "set -e; R={} A='{}'; export DAYFLY_IDS={}\n\
         $R rootfs mount test \"$A\" --uid-range auto; cat \"$A/shared\"; findmnt -no OPTIONS \"$A\" | grep -c nodev\n\
         $R image rm test >&2; $R image gc >&2; $R rootfs gc >&2; cat \"$A/shared\"; $R rootfs ls | grep -c mounted\n\
         nsenter -t $$ -n unshare -m --propagation private sh -c \"umount '$A' && $R rootfs gc\" >&2\n\
         cat \"$A/shared\"; $R rootfs umount \"$A\"; $R image gc",
        image::program().display(),
        at.display(),
        bed.dir.join("ids").display(),
    );
    let outcome = bed
        .program("unshare", &["-m", "--propagation", "private", "sh", "-c", &script])
        .env("DAYFLY_STORE", path(&image::store(bed)))
        .run()
        .ok();
    assert!(
        outcome.stdout.starts_with("above\n1\nabove\n1\nabove\n1 image and 3 layers removed"),
        "{outcome}"
    );
    nothing_is_left(bed);
}

/// In a user namespace overlayfs keeps its attributes in `user.overlay`. Here the layers are in the user's own store.
fn root_of_a_user_namespace(bed: &Bed) {
    let layout = layout(bed);
    let user = User::nested(bed);
    let base = user.bed.runtime().parent().expect("base");
    program::copy(&image::program(), &base.join("dayfly-image"));
    let source = path(&layout.dir);
    let import = ["image", "import", source, "--name", "test", "--seccomp", "none"];
    user.bed.call_bare(&import).run().ok();
    let store = base.join("home/.local/share/dayfly");
    assert!(store.join("refs/test:latest").exists(), "where dayfly looks as well");
    let options = |mode| ["--rootfs-mode", mode];
    for mode in MODES {
        for more in [&[][..], &["--ephemeral"], &["--userns", "host"]] {
            let id = user.bed.id();
            let all =
                [&["run", "--name", &id, "--image", "test"], &options(mode)[..], more, &[LOOK]];
            assert_eq!(user.bed.call(&all.concat()).run().stdout, SEEN, "{mode} {more:?}");
        }
    }
    let id = user.bed.id();
    let all = ["run", "--name", &id, "--image", "test", "--userns", "auto"];
    user.bed.call(&all).run().fails("use --userns host here");
    let at = base.join("home/at");
    let script = format!(
        "mkdir {at} && {image} rootfs mount test {at} && cat {at}/shared && ls {at}/replaced && \
         {image} rootfs umount {at} && rmdir {at}",
        at = at.display(),
        image = base.join("dayfly-image").display()
    );
    let mounted = user.bed.call_bare(&["-c", &script]).env("PROGRAM", "/bin/sh").run().ok();
    assert_eq!(mounted.stdout, "above\nnew\n");
    assert_eq!(fs::read_dir(store.join("containers")).expect("containers").count(), 0);
}

fn a_user_is_told_what_it_takes(bed: &Bed) {
    let layout = layout(bed);
    let user = User::new(bed);
    let base = user.bed.runtime().parent().expect("base");
    program::copy(&image::program(), &base.join("dayfly-image"));
    user.bed.call_bare(&["image", "import", path(&layout.dir), "--name", "test"]).run().ok();
    let told = "unshare --user --map-root-user --mount";
    let at = base.join("home");
    let outcome = user.bed.call_bare(&["rootfs", "mount", "test", path(&at)]).run().exits(1);
    assert!(outcome.stderr.contains(told), "{outcome}");
    // Only the user's own id is mapped, and the tty group is not.
    let script = format!("{told} {}/dayfly run --image test 'id -u; cat /shared'", base.display());
    let outcome = user.bed.call_bare(&["-c", &script]).env("PROGRAM", "/bin/sh").run();
    assert!(outcome.stderr.contains("unmapped gid 8"), "{outcome}");
    let script = script.replace("--image test", "--user 0 --image test");
    let outcome = user.bed.call_bare(&["-c", &script]).env("PROGRAM", "/bin/sh").run().ok();
    assert_eq!(outcome.stdout, "0\nabove\n");
}

fn options_that_exclude_others(bed: &Bed) {
    image::import(bed, &layout(bed));
    let image = ["--image", "test"];
    let fails = |options: &[&str], text: &str| {
        run(bed, &[&image[..], options].concat(), &[]).run().fails(text);
    };
    fails(&["--bundle", "/x"], "leave out --bundle");
    fails(&["--ephemeral-size", "12m"], "--ephemeral-size needs --ephemeral");
    fails(&["--layers", "/x"], "one of them");
    fails(&["--env", "=x"], "--env =x: the name of the variable is missing");
    bed.call(&["run", "--image", "", "true"]).run().fails("--image REF: REF is empty");
    nothing_is_left(bed);
}

fn variables_of_the_caller(bed: &Bed) {
    image::import(bed, &layout(bed));
    let options = ["--image", "test", "-e", "MINE", "-e", "NOBODYS", "-e", "A=c"];
    let outcome = run(bed, &options, &["env"]).env("MINE", "of the caller").run().ok();
    let lines = outcome.lines();
    assert!(lines.contains(&"MINE=of the caller") && lines.contains(&"A=c"), "{outcome}");
    assert!(!lines.contains(&"A=b") && !outcome.stdout.contains("NOBODYS"), "{outcome}");
}
