//! Names of images, and their removal.

use super::{V2, visible};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::image::{self, Layer, Layout};
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::uses_every_fast_path;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

dayfly_tests::subject!(Tools, CASES);

const CASES: &[Case] = &[
    case!(names_and_their_removal).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(names_of_docker_hub).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(names_from_where_an_image_is).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(many_remove_the_same_name).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(one_that_is_gone_when_it_is_removed).on(V2).when(uses_every_fast_path).needs(strace),
    case!(a_containers_image_is_kept).on(V2).when(uses_every_fast_path).needs(image::needed),
];

/// Checks for strace, with which a case makes a single system call fail.
fn strace() -> Result<(), String> {
    image::needed()?;
    let works = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    match works {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("no strace: apt-get install strace ({error})")),
    }
}

fn names_and_their_removal(bed: &Bed) {
    let base = || Layer::new().file("base", 0o644, b"base");
    let one = image::layout(bed, "one", vec![base(), Layer::new().file("one", 0o644, b"1")]);
    let two = image::layout(bed, "two", vec![base(), Layer::new().file("two", 0o644, b"2")]);
    let import = |layout: &Layout, name: &str| {
        let source = layout.dir.to_str().expect("path");
        image::call(bed, &["import", source, "--name", name]).run().ok()
    };
    assert!(import(&one, "localhost/team/one:1.0").stdout.contains("2 layers, 2 unpacked"));
    assert!(import(&two, "two").stdout.contains("2 layers, 1 unpacked"));
    assert!(import(&two, "also").stdout.contains("0 unpacked"));
    assert!(image::store(bed).join("refs/localhost%2Fteam%2Fone:1.0").is_symlink());
    let listed = image::call(bed, &["ls", "--format", "json"]).run().ok().stdout;
    let listed: Value = serde_json::from_str(&listed).expect("json");
    let names: Vec<&Value> =
        listed.as_array().expect("list").iter().map(|image| &image["names"]).collect();
    assert_eq!(names, [&json!(["also:latest", "two:latest"]), &json!(["localhost/team/one:1.0"])]);
    let kept = |count: usize| {
        let layers = fs::read_dir(image::store(bed).join("layers")).expect("layers").count();
        assert_eq!(layers, count);
    };
    kept(3);
    assert!(image::call(bed, &["rm", "two"]).run().ok().stdout.contains("0 images and 0 layers"));
    kept(3);
    assert!(
        image::call(bed, &["rm", "localhost/team/one:1.0"])
            .run()
            .ok()
            .stdout
            .contains("1 image and 1 layer")
    );
    kept(2);
    let digest = listed[0]["digest"].as_str().expect("digest");
    image::call(bed, &["inspect", &digest[..20]]).run().ok();
    image::call(bed, &["rm", digest]).run().ok();
    assert_eq!(visible(bed), Vec::<PathBuf>::new());
    // A command removes either all names that it is given, or none.
    import(&one, "one");
    image::call(bed, &["rm", "one", "two"]).run().exits(1);
    kept(2);
    let listed = image::call(bed, &["rm", "one", "one"]).run().ok().stdout;
    assert_eq!(listed.matches("removed one:latest").count(), 1, "{listed}");
    let outcome = image::call(bed, &["rm", "two"]).run().exits(1);
    assert!(outcome.stderr.contains("no image two"), "{outcome}");
    let outcome = image::call(bed, &["import", one.dir.to_str().expect("path"), "--name", "../x"])
        .run()
        .exits(1);
    assert!(outcome.stderr.contains("invalid image name"), "{outcome}");
}

/// An image may be spelled in several ways, but has one name in the store. Older versions stored names as written.
fn names_of_docker_hub(bed: &Bed) {
    let layout = image::layout(bed, "layout", vec![Layer::new().file("file", 0o644, b"")]);
    let source = layout.dir.to_str().expect("path");
    let refs = image::store(bed).join("refs");
    let names = || {
        let files = fs::read_dir(&refs).expect("refs").map(|file| file.expect("file").file_name());
        let mut names: Vec<_> = files.map(|name| name.into_string().expect("name")).collect();
        names.sort();
        names
    };
    for name in ["docker.io/library/box:1", "docker.io/box:1", "library/box:1", "box:1"] {
        image::call(bed, &["import", source, "--name", name]).run().ok();
        assert_eq!(names(), ["box:1"], "{name}");
        for spelling in ["box:1", "docker.io/box:1", "index.docker.io/library/box:1"] {
            image::call(bed, &["inspect", spelling]).run().ok();
        }
    }
    image::call(bed, &["import", source, "--name", "docker.io/team/box"]).run().ok();
    image::call(bed, &["inspect", "team/box"]).run().ok();
    assert_eq!(names(), ["box:1", "team%2Fbox:latest"]);
    fs::rename(refs.join("box:1"), refs.join("docker.io%2Flibrary%2Fbox:1")).expect("rename");
    let listed = image::call(bed, &["list", "--all"]).run().ok().stdout;
    assert!(listed.lines().any(|line| line.starts_with("box:1 ")), "{listed}");
    for spelling in ["box:1", "docker.io/library/box:1"] {
        image::call(bed, &["inspect", spelling]).run().ok();
    }
    image::call(bed, &["import", source, "--name", "box:1"]).run().ok();
    assert_eq!(names(), ["box:1", "team%2Fbox:latest"]);
    fs::rename(refs.join("box:1"), refs.join("docker.io%2Flibrary%2Fbox:1")).expect("rename");
    image::call(bed, &["rmi", "--force", "box:1", "box:2"]).run().ok();
    assert_eq!(names(), ["team%2Fbox:latest"]);
    image::call(bed, &["inspect", "box"]).run().ok();
    let outcome = image::call(bed, &["inspect", "box:2"]).run().exits(1);
    assert!(outcome.stderr.contains("but team/box:latest"), "{outcome}");
}

/// A default name is taken from the source's directory, and may belong to another image already. It then moves to the
/// new image, with a warning.
fn names_from_where_an_image_is(bed: &Bed) {
    let import = |directory: &str, contents: &[u8], options: &[&str]| {
        fs::create_dir_all(bed.dir.join(directory)).expect("make");
        let layers = vec![Layer::new().file("file", 0o644, contents)];
        let layout = image::layout(bed, &format!("{directory}/layout"), layers);
        let source = layout.dir.to_str().expect("path");
        image::call(bed, &[&["import", source], options].concat()).run()
    };
    let said = |outcome: dayfly_tests::runtime::Outcome| outcome.ok().stderr;
    let warning = "layout:latest was the name of another image until now, sha256:";
    assert!(!said(import("one", b"1", &["--max-bytes", "10k"])).contains(warning));
    assert!(!said(import("one", b"1", &["--max-memory", "8 MiB"])).contains(warning));
    assert!(said(import("two", b"2", &[])).contains(warning));
    assert!(!said(import("three", b"3", &["--name", "layout"])).contains(warning));
    let outcome = import("four", b"4", &["--max-bytes", "10q"]).exits(1);
    assert!(outcome.stderr.contains("perhaps with k, m, g or t"), "{outcome}");
}

/// Several commands remove the same name. The slower ones find that it does not exist, either when they look it up or
/// when they remove it; neither counts as a failure of the store.
fn many_remove_the_same_name(bed: &Bed) {
    let layout = image::layout(bed, "layout", vec![Layer::new().file("file", 0o644, b"")]);
    let source = layout.dir.to_str().expect("path");
    for round in 0..15 {
        image::call(bed, &["import", source, "--name", "test"]).run().ok();
        let calls: Vec<_> = (0..12).map(|_| image::call(bed, &["rm", "test"]).spawn()).collect();
        let outcomes: Vec<_> =
            calls.into_iter().map(dayfly_tests::runtime::Running::wait).collect();
        let removed = outcomes.iter().filter(|one| one.stdout.contains("removed test")).count();
        assert_eq!(removed, 1, "round {round}");
        for outcome in &outcomes {
            let late = outcome.stderr.contains("no image test");
            assert!(
                late == outcome.stdout.is_empty() && (late || outcome.stderr.is_empty()),
                "round {round}: {outcome}"
            );
        }
        assert_eq!(visible(bed), Vec::<PathBuf>::new(), "round {round}");
    }
}

/// Forces the race of the previous case: the name exists at the lookup, but not at the removal.
fn one_that_is_gone_when_it_is_removed(bed: &Bed) {
    image::import(bed, &image::layout(bed, "layout", vec![Layer::new().file("f", 0o644, b"")]));
    let store = image::store(bed);
    let (name, log) = (store.join("refs/test:latest"), bed.dir.join("strace"));
    let path = |path: &Path| path.to_str().expect("path").to_owned();
    let (name, program) = (path(&name), path(&image::program()));
    let gone = ["-e", "trace=?unlink,unlinkat", "-e", "inject=?unlink,unlinkat:error=ENOENT"];
    let all =
        [&["-f", "-o", &path(&log), "-P", &name], &gone[..], &[&program, "image", "rm", "test"]];
    let outcome =
        bed.program("strace", &all.concat()).env("DAYFLY_STORE", &path(&store)).run().ok();
    let calls = fs::read_to_string(&log).expect("strace's log");
    assert_eq!(calls.matches("(INJECTED)").count(), 1, "{calls}");
    assert!(!outcome.stderr.contains("error:"), "{outcome}");
    assert_eq!(outcome.stdout, "0 images and 0 layers removed, 0 B freed\n");
    image::call(bed, &["rm", "test"]).run().ok();
    assert_eq!(visible(bed), Vec::<PathBuf>::new());
}

fn a_containers_image_is_kept(bed: &Bed) {
    let layout = image::layout(bed, "layout", vec![Layer::new().file("file", 0o644, b"")]);
    let image = image::import(bed, &layout);
    let container = image::store(bed).join("containers/c1");
    fs::create_dir_all(&container).expect("make");
    symlink(
        format!("../../images/{}", image.file_name().and_then(|n| n.to_str()).expect("name")),
        container.join("image"),
    )
    .expect("link");
    image::call(bed, &["rm", "test"]).run().ok();
    image::call(bed, &["gc"]).run().ok();
    assert!(image::layers(&image)[0].join("file").exists());
    fs::remove_dir_all(&container).expect("remove");
    image::call(bed, &["gc"]).run().ok();
    assert_eq!(visible(bed), Vec::<PathBuf>::new());
}
